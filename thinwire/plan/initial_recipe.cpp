#include "thinwire/plan/initial_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::plan {
namespace {

constexpr double kLeastText = 100e3;  // bytes
// Tokens a parameter of a model that makes the best of its computing (Hoffmann et al. 2022,
// arXiv 2203.15556).
constexpr double kTokensAParameter = 20;
// Text that is read more often teaches less each time (Muennighoff et al. 2023, arXiv 2305.16264).
constexpr double kEpochs = 4;
// Share of a run's time that is training steps.
constexpr double kComputing = 0.85;
// An all-reduce that takes a smaller share of a step's computing is no burden.
constexpr double kSmallExchange = 0.1;
// Exchanges of a run that one bit a weight was measured with, and the most steps between two.
constexpr int64_t kExchanges = 69, kMostBetween = 58, kFewestBetween = 8;
constexpr int64_t kFewestSteps = 100;
// For tuning, how often the text is read, the rows of a step and the tokens of a row; bytes a
// token.
constexpr double kTuningEpochs = 3;
constexpr int64_t kTuningRows = 16, kTuningSequence = 512, kFewestTuningSteps = 20;
constexpr double kTuningBytesAToken = 3.9;
// QLoRA's rate up to 13 G parameters, and of larger models (Dettmers et al. 2023, arXiv 2305.14314,
// table 9).
constexpr double kLargeModel = 20e9;
constexpr std::array<int64_t, 16> kWidths = {32,  64,  96,  128, 160,  192,  256,  320,
                                             384, 512, 640, 768, 1024, 1280, 1536, 2048};

// A usual size for a text of so many bytes and a model of such a width; bytes a token of English,
// about.
struct Vocabulary {
  double text_bytes;
  int64_t width, tokens;
  double bytes_a_token;
};
constexpr std::array<Vocabulary, 4> kVocabularies = {
    {{0, 0, 1024, 2.6}, {10e6, 128, 4096, 3.2}, {1e9, 320, 16384, 3.9}, {10e9, 768, 32000, 4.2}}};

const Vocabulary& vocabulary_of(double text_bytes, int64_t width) {
  const auto more = std::ranges::find_if(kVocabularies, [&](const Vocabulary& one) {
    return one.text_bytes > text_bytes || one.width > width;
  });
  return *(more - 1);
}

struct Line {
  std::string field, value, comment = {};
};
struct Table {
  std::string name;
  std::vector<Line> lines;
};

std::string quoted(const std::string& text) { return print_json(nlohmann::json(text)); }

std::string print_tables(const std::vector<Table>& tables) {
  std::string text;
  for (const Table& table : tables) {
    text += fmt::format("\n[{}]\n", table.name);
    for (const Line& line : table.lines) {
      const std::string field = fmt::format("{} = {}", line.field, line.value);
      text +=
          line.comment.empty() ? field + "\n" : fmt::format("{:<28}  # {}\n", field, line.comment);
    }
  }
  return text;
}

std::vector<std::string> fields_of(const std::vector<Table>& tables) {
  std::vector<std::string> fields;
  for (const Table& table : tables) {
    for (const Line& line : table.lines) {
      fields.push_back(fmt::format("{}.{}={}", table.name, line.field, line.value));
    }
  }
  return fields;
}

config::Recipe load(const std::vector<Table>& tables) {
  return method::load_recipe({}, fields_of(tables));
}

Table model_table(int64_t width) {
  const int64_t head = width <= 256 ? 32 : 64;
  return {"model",
          {{"hidden", fmt::format("{}", width)},
           {"layers", fmt::format("{}", 2 + width / 64)},
           {"heads", fmt::format("{}", width / head)},
           {"tied", "true"}}};
}

struct Size {
  int64_t width = 0, vocabulary = 0, parameters = 0, sequence = 0;
  double text_tokens = 0;
  double tokens = 0, seconds = 0;  // of the run
  bool text_is_short = false;      // the text would not suffice for as many tokens as suit it
};

// The model of a width, trained on as many tokens as suit it.
Size size_of(int64_t width, const InitialQuestion& question) {
  const Vocabulary& vocabulary = vocabulary_of(question.text_bytes, width);
  std::vector<Table> tables = {model_table(width)};
  tables[0].lines.push_back({"vocab", fmt::format("{}", vocabulary.tokens)});
  config::Recipe recipe = load(tables);
  Size size = {.width = width,
               .vocabulary = vocabulary.tokens,
               .parameters = method::parameter_count(method::tensors_of(recipe)),
               .text_tokens = question.text_bytes / vocabulary.bytes_a_token};
  size.sequence = size.parameters < 3'000'000     ? 128
                  : size.parameters < 30'000'000  ? 256
                  : size.parameters < 200'000'000 ? 512
                                                  : 1024;
  recipe.train.sequence = size.sequence;
  size.tokens = kTokensAParameter * static_cast<double>(size.parameters);
  size.seconds = size.tokens * method::train_flops_per_token(recipe) /
                 (question.flops * static_cast<double>(question.members) * kComputing);
  return size;
}

// The steps of a run, and the rows of each, as many for every member.
struct Steps {
  int64_t steps, rows;
  double step_tokens;
  double tokens() const { return static_cast<double>(steps) * step_tokens; }
};

// 2048 tokens a step for 8 M tokens, and more in proportion to the root of their number; fewer
// where the steps would be too few.
Steps steps_for(const Size& size, int64_t members) {
  const double doublings = std::round(0.5 * std::log2(size.tokens / 8e6));
  const double tokens =
      std::min(2048 * std::exp2(std::clamp(doublings, -1.0, 9.0)), size.tokens / kFewestSteps);
  const auto row_of_each = static_cast<double>(size.sequence * members);
  const auto share = static_cast<int64_t>(std::max(1.0, std::floor(tokens / row_of_each)));
  const double step_tokens = static_cast<double>(share) * row_of_each;
  const auto steps = static_cast<int64_t>(size.tokens / step_tokens);
  if (steps < kFewestSteps) {
    throw UsageError(
        fmt::format("{} tokens are too few for {} members: a step takes a row of {} tokens from "
                    "each, and {} steps "
                    "are needed at least; more text or more hours would give more tokens",
                    format_count(size.tokens), members, size.sequence, kFewestSteps));
  }
  return {steps, share * members, step_tokens};
}

// How the members of the run exchange what they have learnt.
std::vector<Table> sync_tables(const InitialQuestion& question, const Size& size, double step_s,
                               int64_t steps) {
  if (question.members == 1) return {};
  const double exchange_s =
      4 * 8 * static_cast<double>(size.parameters) / std::max(question.up_bit_s, 1.0);
  if (exchange_s <= kSmallExchange * step_s) {
    return {{"sync", {{"method", "\"allreduce\"", "this line carries whole gradients"}}}};
  }
  const auto every = std::clamp(steps / kExchanges, kFewestBetween, kMostBetween);
  return {{"sync", {{"method", "\"streaming\"", "DiLoCo, a slice of the weights at a time"}}},
          {"streaming",
           {{"sync_every", fmt::format("{}", every), "steps between two exchanges of a weight"},
            {"slices", fmt::format("{}", every), "of which one is exchanged after each step"},
            {"overlap", "\"none\""},
            {"wire", "\"int1\"", "one bit a weight"},
            {"error_feedback", "true"},
            {"error_in", "\"weights\""},
            {"outer_momentum", "0.7"}}}};
}

// The largest model that the time suffices for, and the text.
Size choose_size(const InitialQuestion& question) {
  const double most_s = 3600 * question.hours;
  std::optional<Size> chosen;
  for (const int64_t width : kWidths) {
    Size size = size_of(width, question);
    if (size.seconds > most_s) break;
    size.text_is_short = size.tokens > kEpochs * size.text_tokens;
    if (size.text_is_short && chosen) {
      chosen->text_is_short = true;
      break;
    }
    chosen = size;
    if (size.text_is_short) break;
  }
  if (!chosen) {
    const Size least = size_of(kWidths[0], question);
    throw UsageError(fmt::format(
        "{} do not suffice: the smallest model, of {} parameters, takes {} where each of {} "
        "computes "
        "{}FLOP/s",
        format_seconds(most_s), format_parameters(static_cast<double>(least.parameters)),
        format_seconds(least.seconds), counted(question.members, "member"),
        format_count(question.flops)));
  }
  const double tokens = std::min(chosen->tokens, kEpochs * chosen->text_tokens);
  chosen->seconds *= tokens / chosen->tokens;
  chosen->tokens = tokens;
  return *chosen;
}

Table data_table(const InitialQuestion& question, const Line& vocabulary) {
  std::string text;
  for (const std::string& path : question.text) text += (text.empty() ? "" : ", ") + quoted(path);
  return {"data",
          {{"dir", quoted("data/" + question.name)},
           {"text", "[" + text + "]"},
           {"document", quoted(std::string(name_of(question.document))),
            "what ends a document of a .txt file"},
           vocabulary}};
}

Table train_table(const InitialQuestion& question, const Size& size, const Steps& steps,
                  const std::string& tokens) {
  Table table = {
      "train",
      {{"steps", fmt::format("{}", steps.steps),
        fmt::format("{}; {:.1f} times the text", tokens, steps.tokens() / size.text_tokens)},
       {"batch", fmt::format("{}", steps.rows), "rows of a step"},
       {"sequence", fmt::format("{}", size.sequence), "tokens of a row"},
       {"workers", fmt::format("{}", question.members)},
       {"precision", "\"auto\"", "bf16 where the processor has it"}}};
  if (question.members == 1 && question.threads > 0) {
    table.lines.push_back({"threads", fmt::format("{}", question.threads), "of this machine"});
  }
  return table;
}

std::vector<Table> from_scratch(const InitialQuestion& question, const Size& size,
                                const Steps& steps) {
  const std::string tokens =
      fmt::format("{} tokens, {:.0f} a parameter", format_count(steps.tokens()),
                  steps.tokens() / static_cast<double>(size.parameters));
  return {
      {"run", {{"name", quoted(question.name)}}},
      data_table(question, {"vocabulary_size", fmt::format("{}", size.vocabulary)}),
      model_table(size.width),
      train_table(question, size, steps, tokens),
      {"optim",
       {{"method", "\"muon\"", "rate, betas and warm-up by rule: thinwire recipe shows them"}}}};
}

// What is said of the model that is tuned.
std::vector<Table> tuning_tables(const std::string& folder) {
  return {{"train", {{"init", quoted(folder), "the model: its weights, shape and arithmetic"}}},
          {"adapter",
           {{"kind", "\"lora\"", "two small factors beside each matrix are trained"},
            {"rank", "16"},
            {"alpha", "32"},
            {"targets", "[\"*_proj\"]"}}}};
}

std::vector<Table> tuning(const InitialQuestion& question, const Size& size, const Steps& steps) {
  const TunedModel& model = *question.model;
  std::vector<Table> of_model = tuning_tables(model.folder);
  Table train =
      train_table(question, size, steps, fmt::format("{} tokens", format_count(steps.tokens())));
  train.lines.insert(train.lines.begin(), of_model[0].lines[0]);
  const auto whole = static_cast<double>(
      method::parameter_count(method::tensors_of(method::ModelSpec(model.recipe))));
  return {{"run", {{"name", quoted(question.name)}}},
          data_table(question, {"vocabulary_model", quoted(model.vocabulary), "the model's own"}),
          std::move(train),
          std::move(of_model[1]),
          {"optim",
           {{"lr", whole < kLargeModel ? "2e-4" : "1e-4", "arXiv 2305.14314, table 9"},
            {"weight_decay", "0"}}},
          {"adamw", {{"beta2", "0.999"}}},
          {"schedule", {{"warmup", fmt::format("{}", steps.steps / 25)}}},
          {"eval", {{"every", fmt::format("{}", std::max<int64_t>(1, steps.steps / 10))}}}};
}

// The run's tables, with those of how its members exchange.
std::vector<Table> tables_of(const InitialQuestion& question, const Size& size,
                             const Steps& steps) {
  std::vector<Table> tables =
      question.model ? tuning(question, size, steps) : from_scratch(question, size, steps);
  const double step_s = size.seconds / static_cast<double>(steps.steps);
  for (Table& table : sync_tables(question, size, step_s, steps.steps)) {
    tables.push_back(std::move(table));
  }
  return tables;
}

// As many tokens as the time suffices for, and three times the text at most.
Size tuned_size(const InitialQuestion& question) {
  config::Recipe recipe = question.model->recipe;
  recipe.train.sequence = kTuningSequence;
  Size size = {.vocabulary = recipe.model.vocab,
               .parameters = method::parameter_count(method::tensors_of(recipe)),
               .sequence = kTuningSequence,
               .text_tokens = question.text_bytes / kTuningBytesAToken};
  const double tokens_a_second = question.flops * static_cast<double>(question.members) *
                                 kComputing / method::train_flops_per_token(recipe);
  const double wanted = kTuningEpochs * size.text_tokens;
  size.tokens = std::min(wanted, 3600 * question.hours * tokens_a_second);
  size.text_is_short = size.tokens == wanted;
  size.seconds = size.tokens / tokens_a_second;
  return size;
}

// Steps of a usual size, or smaller ones where those would be too few.
Steps tuning_steps(const Size& size, int64_t members) {
  const double rows = size.tokens / static_cast<double>(size.sequence);
  const double wanted = std::min(static_cast<double>(kTuningRows), rows / kFewestSteps);
  const auto share = std::max<int64_t>(1, static_cast<int64_t>(wanted) / members);
  const auto steps = static_cast<int64_t>(rows) / (share * members);
  if (steps < kFewestTuningSteps) {
    throw UsageError(fmt::format(
        "{} tokens are too few for {}: they are {} steps of a row of {} tokens from each, and {} "
        "are needed at least; more text or more hours would give more tokens",
        format_count(size.tokens), counted(members, "member"), steps, size.sequence,
        kFewestTuningSteps));
  }
  return {steps, share * members, static_cast<double>(share * members * size.sequence)};
}

}  // namespace

std::vector<std::string> tuning_fields(const std::string& folder) {
  return fields_of(tuning_tables(folder));
}

InitialChoice initial_recipe(const InitialQuestion& question) {
  if (!question.model && question.text_bytes < kLeastText) {
    throw UsageError(
        fmt::format("the text has {}, and a model from scratch needs {} at least; a trained model "
                    "can be tuned on less (--model)",
                    format_bytes(question.text_bytes), format_bytes(kLeastText)));
  }
  const Size size = question.model ? tuned_size(question) : choose_size(question);
  const Steps steps =
      question.model ? tuning_steps(size, question.members) : steps_for(size, question.members);
  InitialChoice choice = {.vocabulary = size.vocabulary,
                          .parameters = size.parameters,
                          .text_tokens = size.text_tokens,
                          .tokens = steps.tokens(),
                          .text_is_short = size.text_is_short,
                          .seconds = size.seconds * steps.tokens() / size.tokens};
  std::vector<Table> tables = tables_of(question, size, steps);
  choice.toml = print_tables(tables);
  choice.recipe = load(tables);
  return choice;
}

}  // namespace thinwire::plan

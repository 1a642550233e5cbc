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

config::Recipe load(const std::vector<Table>& tables) {
  std::vector<std::string> fields;
  for (const Table& table : tables) {
    for (const Line& line : table.lines) {
      fields.push_back(fmt::format("{}.{}={}", table.name, line.field, line.value));
    }
  }
  return method::load_recipe({}, fields);
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

std::vector<Table> tables_of(const InitialQuestion& question, const Size& size,
                             const Steps& steps) {
  std::string text;
  for (const std::string& path : question.text) text += (text.empty() ? "" : ", ") + quoted(path);
  std::vector<Table> tables = {
      {"run", {{"name", quoted(question.name)}}},
      {"data",
       {{"dir", quoted("data/" + question.name)},
        {"text", "[" + text + "]"},
        {"document", quoted(std::string(name_of(question.document))),
         "what ends a document of a .txt file"},
        {"vocabulary_size", fmt::format("{}", size.vocabulary)}}},
      model_table(size.width),
      {"train",
       {{"steps", fmt::format("{}", steps.steps),
         fmt::format("{} tokens, {:.0f} a parameter; {:.1f} times the text",
                     format_count(steps.tokens()),
                     steps.tokens() / static_cast<double>(size.parameters),
                     steps.tokens() / size.text_tokens)},
        {"batch", fmt::format("{}", steps.rows), "rows of a step"},
        {"sequence", fmt::format("{}", size.sequence), "tokens of a row"},
        {"workers", fmt::format("{}", question.members)},
        {"precision", "\"auto\"", "bf16 where the processor has it"}}},
      {"optim",
       {{"method", "\"muon\"", "rate, betas and warm-up by rule: thinwire recipe shows them"}}},
  };
  if (question.members == 1 && question.threads > 0) {
    const auto train = std::ranges::find(tables, "train", &Table::name);
    train->lines.push_back({"threads", fmt::format("{}", question.threads), "of this machine"});
  }
  const double step_s = size.seconds / static_cast<double>(steps.steps);
  for (Table& table : sync_tables(question, size, step_s, steps.steps)) {
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace

InitialChoice initial_recipe(const InitialQuestion& question) {
  if (question.text_bytes < kLeastText) {
    throw UsageError(
        fmt::format("the text has {}, and a model from scratch needs {} at least; a trained model "
                    "can be fine-tuned on less (docs/finetuning.md)",
                    format_bytes(question.text_bytes), format_bytes(kLeastText)));
  }
  const Size size = choose_size(question);
  const Steps steps = steps_for(size, question.members);
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

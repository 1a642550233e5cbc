// thinwire generate: continues a text with a trained model and shows it as it is generated.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/convert/load.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/model/generation.h"
#include "thinwire/model/registry.h"
#include "thinwire/model/sampler.h"

namespace thinwire::cli {
namespace {

constexpr int64_t kTokens = 200;
constexpr int64_t kMaxTokens = int64_t{1} << 32;

struct GenerateArguments {
  std::string model;
  std::string base;
  std::optional<std::string> prompt;
  std::string begin = "auto";
  std::string weights = "auto";
  int64_t tokens = 0;  // 0: as many as fit into the context, at most kTokens
  int64_t context = 0;
  int threads = available_cores();
  bool greedy = false;
  bool ignore_end = false;
  model::SamplerOptions sampling;
};

int32_t begin_token(const GenerateArguments& arguments, const convert::LoadedModel& loaded) {
  if (arguments.begin == "none") return -1;
  if (arguments.begin == "bos") return loaded.vocabulary->bos();
  if (arguments.begin == "eos") return loaded.vocabulary->eos();
  return loaded.begin;
}

convert::DecodingWeights weights_of(const std::string& name) {
  if (name == "fp32") return convert::DecodingWeights::kF32;
  return name == "bf16" ? convert::DecodingWeights::kBf16 : convert::DecodingWeights::kAuto;
}

// All of standard input, without the final line break.
std::string read_standard_input() {
  std::string text;
  std::array<char, 1 << 16> piece;
  while (const size_t read = std::fread(piece.data(), 1, piece.size(), stdin)) {
    text.append(piece.data(), read);
  }
  if (std::ferror(stdin) != 0) throw Error("cannot read the prompt from standard input");
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

// The text to continue: --prompt, or standard input if that is "-" or missing with piped input.
std::string prompt_text(const GenerateArguments& arguments) {
  const bool piped = !arguments.prompt && ::isatty(STDIN_FILENO) == 0;
  if (piped || arguments.prompt == "-") return read_standard_input();
  return arguments.prompt.value_or("");
}

std::vector<int32_t> prompt_tokens(const GenerateArguments& arguments,
                                   const convert::LoadedModel& loaded) {
  std::vector<int32_t> tokens = loaded.vocabulary->encode(prompt_text(arguments));
  const int32_t begin = begin_token(arguments, loaded);
  if (begin >= 0) tokens.insert(tokens.begin(), begin);
  if (tokens.empty()) {
    throw UsageError(
        fmt::format("with --begin {} no token precedes the text, so there must be a --prompt",
                    arguments.begin));
  }
  return tokens;
}

int64_t context_size(const GenerateArguments& arguments, const convert::LoadedModel& loaded) {
  return arguments.context > 0 ? arguments.context : loaded.sequence;
}

// How many tokens to add to a prompt of this many.
int64_t tokens_to_add(const GenerateArguments& arguments, const convert::LoadedModel& loaded,
                      int64_t prompt) {
  const int64_t context = context_size(arguments, loaded);
  const int64_t wanted =
      arguments.tokens > 0 ? arguments.tokens : std::clamp(context - prompt, int64_t{1}, kTokens);
  if (prompt + wanted > context) {
    throw UsageError(fmt::format(
        "--prompt of {} tokens and --tokens {} exceed the context of {}; ask for fewer, or "
        "set --context "
        "(a model rarely does well beyond the {} tokens it was trained on)",
        prompt, wanted, context, loaded.sequence));
  }
  return wanted;
}

void require_memory(const GenerateArguments& arguments, const convert::LoadedModel& loaded) {
  const int64_t context = context_size(arguments, loaded);
  const std::string warning = check_memory(
      {"generating", model::decoder_memory(loaded.model, context, arguments.threads),
       fmt::format(
           "lower --context, which is {}{}", context,
           arguments.threads > 1 ? fmt::format(", or --threads {}", arguments.threads) : "")});
  if (!warning.empty()) events::print_message(warning);
}

std::string rate(size_t tokens, double seconds) {
  return fmt::format("{:.4g}", static_cast<double>(tokens) / seconds);
}

void run_generate(const GenerateArguments& arguments) {
  model::SamplerOptions sampling = arguments.sampling;
  if (arguments.greedy) sampling.temperature = 0;
  model::Sampler sampler(sampling);
  convert::LoadedModel loaded = convert::load_model(arguments.model, arguments.base);
  if (loaded.vocabulary == nullptr) {
    throw Error(fmt::format("{} holds no vocabulary, so its tokens have no text", arguments.model));
  }
  const std::vector<int32_t> prompt = prompt_tokens(arguments, loaded);
  const int64_t wanted = tokens_to_add(arguments, loaded, static_cast<int64_t>(prompt.size()));
  require_memory(arguments, loaded);
  convert::choose_weights(loaded, weights_of(arguments.weights));
  ThreadPool threads(arguments.threads);
  const auto decoder =
      model::make_decoder({loaded.model, *loaded.params, threads, context_size(arguments, loaded)});

  data::TextStream text(*loaded.vocabulary);
  for (const int32_t token : prompt) write_output(text.push(token));
  const Stopwatch watch;
  double read_in = 0;  // seconds
  const int64_t made = model::generate_tokens(
      *decoder, sampler, prompt, {wanted, loaded.vocabulary->size()}, [&](int32_t token) {
        if (read_in == 0) read_in = watch.seconds();
        if (token == loaded.vocabulary->eos() && !arguments.ignore_end) return false;
        write_output(text.push(token));
        return true;
      });
  write_output(text.finish() + "\n");
  const double written_in = watch.seconds() - read_in;
  events::print_message(
      fmt::format("{} read at {} tokens/s{}", counted(std::ssize(prompt), "token"),
                  rate(prompt.size(), read_in),
                  made < 2 ? ""
                           : fmt::format(", {} more at {} tokens/s", made - 1,
                                         rate(static_cast<size_t>(made - 1), written_in))));
}

}  // namespace

void add_generate(CLI::App& app) {
  auto* command = add_command(app, "generate", "Continues a text with a trained model");
  const auto arguments = std::make_shared<GenerateArguments>();
  command
      ->add_option("model", arguments->model,
                   "Run folder (its newest checkpoint), checkpoint, Hugging Face or PEFT folder")
      ->required()
      ->check(existing_folder());
  command->add_option("--prompt", arguments->prompt,
                      "Text to continue; -, or no --prompt with piped input, reads standard input "
                      "(default: no text)");
  add_count(*command, "--tokens", arguments->tokens, 1, kMaxTokens,
            "Maximum number of tokens to add (default: what fits into the context, at most 200)");
  auto* temperature =
      add_number(*command, "--temperature", arguments->sampling.temperature, {0, 1e6},
                 "Divides the logits: below 1 is more conservative, above 1 more random, 0 greedy");
  add_count(*command, "--top-k", arguments->sampling.top_k, 0, kMaxTokens,
            "Choose only among the k likeliest tokens; 0: all");
  add_number(*command, "--top-p", arguments->sampling.top_p, {0, 1, true},
             "Choose only among the fewest likeliest tokens whose probabilities reach this sum");
  add_count(*command, "--seed", arguments->sampling.seed, 0, std::numeric_limits<int64_t>::max(),
            "Seed of the random choices");
  command->add_flag("--greedy", arguments->greedy, "Always choose the likeliest token")
      ->excludes(temperature);
  command
      ->add_option("--begin", arguments->begin,
                   "Token before the text: bos, eos or none; auto: as in the model's training, "
                   "which is eos for models trained here and as their folder says for others")
      ->check(one_of({"auto", "bos", "eos", "none"}))
      ->capture_default_str();
  command
      ->add_option(
          "--weights", arguments->weights,
          "How weights are kept: fp32 or bf16, which is faster; auto: bf16 if that changes "
          "none of them")
      ->check(one_of({"auto", "fp32", "bf16"}))
      ->capture_default_str();
  command->add_flag("--ignore-end", arguments->ignore_end,
                    "Continue after an end-of-sequence token");
  add_count(*command, "--context", arguments->context, 1, kMaxTokens,
            "Maximum number of tokens of prompt and answer together (default: the sequence length "
            "of the training)");
  add_count(*command, "--threads", arguments->threads, 1, kMaxThreads, "Compute threads");
  add_base(*command, arguments->base);
  add_quiet_flag(command);
  command->callback([arguments] { run_generate(*arguments); });
}

}  // namespace thinwire::cli

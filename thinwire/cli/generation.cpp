#include "thinwire/cli/generation.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "thinwire/base/error.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/convert/end_tokens.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/registry.h"

namespace thinwire::cli {
namespace {

model::SamplerOptions sampling_of(const GenerationArguments& arguments) {
  model::SamplerOptions sampling = arguments.sampling;
  if (arguments.greedy) sampling.temperature = 0;
  return sampling;
}

void require_memory(const GenerationArguments& arguments, const model::DecoderParts& parts) {
  const std::string warning = model::check_decoder_memory(
      "generating", parts,
      fmt::format("lower --context, which is {}{}", parts.context,
                  arguments.threads > 1 && !parts.placement
                      ? fmt::format(", or --threads {}", arguments.threads)
                      : ""));
  if (!warning.empty()) events::print_message(warning);
}

// Throws for models whose positions come from a table, if there are not so many.
void require_positions(const convert::LoadedModel& loaded, int64_t context) {
  const method::Architecture& architecture = method::find_architecture(loaded.model.architecture);
  if (architecture.positions == nullptr || context <= architecture.positions(loaded.model)) return;
  throw UsageError(fmt::format(
      "a text of {} tokens is longer than the {} positions that this model has ({}.positions)",
      context, architecture.positions(loaded.model), loaded.model.architecture));
}

}  // namespace

void add_generation_options(CLI::App& command, GenerationArguments& arguments,
                            const GenerationHelp& help) {
  command
      .add_option("model", arguments.model,
                  "Run folder (its newest checkpoint), checkpoint, Hugging Face or PEFT folder")
      ->required()
      ->check(existing_folder());
  add_count(command, "--tokens", arguments.tokens, 1, kMaxTokens, help.tokens);
  command.add_option("--prompt", arguments.prompt, help.prompt);
  auto* temperature =
      add_number(command, "--temperature", arguments.sampling.temperature, {0, 1e6},
                 "Divides the logits: below 1 is more conservative, above 1 more random, 0 greedy");
  add_count(command, "--top-k", arguments.sampling.top_k, 0, kMaxTokens,
            "Choose only among the k likeliest tokens; 0: all");
  add_number(command, "--top-p", arguments.sampling.top_p, {0, 1, true},
             "Choose only among the fewest likeliest tokens whose probabilities reach this sum");
  add_count(command, "--seed", arguments.sampling.seed, 0, std::numeric_limits<int64_t>::max(),
            "Seed of the random choices");
  command.add_flag("--greedy", arguments.greedy, "Always choose the likeliest token")
      ->excludes(temperature);
  add_choice(command, "--weights", arguments.weights,
             "How weights are kept: fp32 or bf16, which is faster; auto: bf16 if that changes none "
             "of them");
  add_count(command, "--context", arguments.context, 1, kMaxTokens,
            "Maximum number of tokens of the whole text (default: the sequence length of the "
            "training)");
  add_count(command, "--threads", arguments.threads, 1, kMaxThreads, "Compute threads");
  add_device(command, arguments.device);
  add_base(command, arguments.base);
  add_quiet_flag(&command);
}

convert::LoadedModel load_generator(const GenerationArguments& arguments) {
  convert::LoadedModel loaded = convert::load_model(arguments.model, arguments.base);
  for (const std::string& notice : loaded.notices) events::print_message(notice);
  if (loaded.vocabulary == nullptr) {
    throw Error(fmt::format("{} holds no vocabulary, so its tokens have no text", arguments.model));
  }
  return loaded;
}

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

int64_t choose_context(const GenerationArguments& arguments, const convert::LoadedModel& loaded,
                       int64_t needed) {
  if (arguments.context > 0 && needed > arguments.context) {
    throw UsageError(
        fmt::format("a text of {} tokens, with what is to be added, exceeds --context {}; raise "
                    "it, or ask for fewer --tokens",
                    needed, arguments.context));
  }
  const int64_t trained = loaded.sequence;
  const int64_t context = arguments.context > 0 ? arguments.context : std::max(trained, needed);
  require_positions(loaded, context);
  if (needed > trained) {
    events::print_message(
        fmt::format("this text of up to {} tokens is longer than the {} that the model was trained "
                    "with; beyond those it may write nonsense",
                    needed, trained));
  }
  return context;
}

Generator::Generator(const GenerationArguments& arguments, convert::LoadedModel& loaded,
                     int64_t context)
    : ends_(convert::end_tokens(loaded.origin, *loaded.vocabulary)),
      sampler_(sampling_of(arguments)),
      threads_(arguments.threads) {
  convert::choose_weights(loaded, arguments.weights);
  const model::DecoderParts parts = {loaded.model, *loaded.params, threads_, context,
                                     model::placement_of(arguments.device, 0, kDeviceOption)};
  require_memory(arguments, parts);
  decoder_ = model::make_decoder(parts);
}

bool Generator::is_end(int32_t token) const {
  return std::ranges::find(ends_, token) != ends_.end();
}

}  // namespace thinwire::cli

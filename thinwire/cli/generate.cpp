// thinwire generate: continues a text with a trained model and shows it as it is generated.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/generation.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/model/sampler.h"

namespace thinwire::cli {
namespace {

constexpr int64_t kTokens = 200;

// The token before the text.
enum class Begin : uint8_t { kAuto, kBos, kEos, kNone };
constexpr std::string_view kBeginNames[] = {"auto", "bos", "eos", "none"};
constexpr std::span<const std::string_view> names_of(Begin) { return kBeginNames; }

struct GenerateArguments {
  GenerationArguments generation;
  ChatArguments chat;
  Begin begin = Begin::kAuto;
  bool ignore_end = false;
  bool chats = false;
};

int32_t begin_token(const GenerateArguments& arguments, const convert::LoadedModel& loaded) {
  switch (arguments.begin) {
    case Begin::kNone:
      return -1;
    case Begin::kBos:
      return loaded.vocabulary->bos();
    case Begin::kEos:
      return loaded.vocabulary->eos();
    case Begin::kAuto:
      break;
  }
  return loaded.begin;
}

// The text to continue: --prompt, or standard input if that is "-" or missing with piped input.
std::string prompt_text(const GenerateArguments& arguments) {
  const std::optional<std::string>& prompt = arguments.generation.prompt;
  const bool piped = !prompt && ::isatty(STDIN_FILENO) == 0;
  if (piped || prompt == "-") return read_standard_input();
  return prompt.value_or("");
}

std::vector<int32_t> prompt_tokens(const GenerateArguments& arguments,
                                   const convert::LoadedModel& loaded) {
  std::vector<int32_t> tokens = loaded.vocabulary->encode(prompt_text(arguments));
  const int32_t begin = begin_token(arguments, loaded);
  if (begin >= 0) tokens.insert(tokens.begin(), begin);
  if (tokens.empty()) {
    throw UsageError(
        fmt::format("with --begin {} no token precedes the text, so there must be a --prompt",
                    name_of(arguments.begin)));
  }
  return tokens;
}

// How many tokens to add to a prompt of this many.
int64_t tokens_to_add(const GenerationArguments& arguments, const convert::LoadedModel& loaded,
                      int64_t prompt) {
  if (arguments.tokens > 0) return arguments.tokens;
  const int64_t context = arguments.context > 0 ? arguments.context : loaded.sequence;
  return prompt < context ? std::min(context - prompt, kTokens) : kTokens;
}

std::string rate(size_t tokens, double seconds) {
  const double a_second = static_cast<double>(tokens) / seconds;
  return a_second < 100 ? fmt::format("{:.3g}", a_second) : format_count(a_second);
}

void run_generate(const GenerateArguments& arguments) {
  convert::LoadedModel loaded = load_generator(arguments.generation);
  const std::vector<int32_t> prompt = prompt_tokens(arguments, loaded);
  const int64_t wanted = tokens_to_add(arguments.generation, loaded, std::ssize(prompt));
  Generator generator(arguments.generation, loaded,
                      choose_context(arguments.generation, loaded, std::ssize(prompt) + wanted));

  data::TextStream text(*loaded.vocabulary);
  for (const int32_t token : prompt) write_output(text.push(token));
  const Stopwatch watch;
  double read_in = 0;  // seconds
  const int64_t made =
      model::generate_tokens(generator.decoder(), generator.sampler(), prompt,
                             {wanted, loaded.vocabulary->size()}, [&](int32_t token) {
                               if (read_in == 0) read_in = watch.seconds();
                               if (generator.is_end(token) && !arguments.ignore_end) return false;
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
  add_generation_options(*command, arguments->generation,
                         {.tokens = "Maximum number of tokens to add (default: what fits into the "
                                    "context, at most 200)",
                          .prompt = "Text to continue; -, or no --prompt with piped input, reads "
                                    "standard input (default: no text)"});
  auto* begin =
      add_choice(*command, "--begin", arguments->begin,
                 "Token before the text: bos, eos or none; auto: as in the model's training, which "
                 "is eos for models trained here and as their folder says for others");
  auto* ignore_end = command->add_flag("--ignore-end", arguments->ignore_end,
                                       "Continue after an end-of-sequence token");
  auto* chats = command
                    ->add_flag("--chat", arguments->chats,
                               "Answer messages instead of continuing a text, as `thinwire chat`")
                    ->excludes(begin)
                    ->excludes(ignore_end);
  add_chat_options(*command, arguments->chat, chats);
  command->callback([arguments] {
    if (!arguments->chats) return run_generate(*arguments);
    run_chat(arguments->generation, arguments->chat);
  });
}

}  // namespace thinwire::cli

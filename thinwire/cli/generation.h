// What `generate` and `chat` share: which model continues a text, how its tokens are chosen, and
// how long the text may become.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/cores.h"
#include "thinwire/base/threads.h"
#include "thinwire/convert/load.h"
#include "thinwire/model/decoder.h"
#include "thinwire/model/sampler.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace thinwire::convert {

// Of --weights.
inline constexpr std::string_view kDecodingWeightsNames[] = {"auto", "fp32", "bf16"};
constexpr std::span<const std::string_view> names_of(DecodingWeights) {
  return kDecodingWeightsNames;
}

}  // namespace thinwire::convert

namespace thinwire::cli {

inline constexpr int64_t kMaxTokens = int64_t{1} << 32;  // of an option

struct GenerationArguments {
  std::string model;
  std::string base;
  convert::DecodingWeights weights = convert::DecodingWeights::kAuto;
  std::optional<std::string> prompt;  // "-": standard input
  int64_t tokens = 0;                 // the most to add; 0: not given
  int64_t context = 0;                // 0: not given
  int threads = available_cores();
  config::DeviceChoice device = config::DeviceChoice::kCpu;
  bool greedy = false;
  model::SamplerOptions sampling;
};

// What the help of options says that mean something else to each command.
struct GenerationHelp {
  std::string tokens;
  std::string prompt;
};

// Declares the model and the options above.
void add_generation_options(CLI::App& command, GenerationArguments& arguments,
                            const GenerationHelp& help);

// Reads the model. Throws Error if it has no vocabulary.
convert::LoadedModel load_generator(const GenerationArguments& arguments);

// Standard input as a whole, without the line break at its end.
std::string read_standard_input();

// How many tokens a text may have: as many as --context says, or as the model was trained with. A
// text of `needed` tokens may be longer than the model was trained with, with a warning, unless
// --context says otherwise or the model has no more positions, which are UsageErrors.
int64_t choose_context(const GenerationArguments& arguments, const convert::LoadedModel& loaded,
                       int64_t needed);

// A sampler, threads and a decoder for a model. Throws UsageError if this machine lacks the memory.
class Generator {
 public:
  // loaded must outlive it; its weights are kept as --weights says.
  Generator(const GenerationArguments& arguments, convert::LoadedModel& loaded, int64_t context);

  model::Decoder& decoder() { return *decoder_; }
  model::Sampler& sampler() { return sampler_; }
  // Whether a text ends with this token.
  bool is_end(int32_t token) const;

 private:
  std::vector<int32_t> ends_;
  model::Sampler sampler_;
  ThreadPool threads_;
  std::unique_ptr<model::Decoder> decoder_;
};

// A conversation with a model: `thinwire chat`, and `thinwire generate --chat`.
struct ChatArguments {
  std::string system;         // the system prompt; empty: none
  std::string chat_template;  // a file; empty: the model's own
};

// Declares these options; they need the option `chats`, unless it is null.
void add_chat_options(CLI::App& command, ChatArguments& arguments, CLI::Option* chats);

// Answers --prompt, or if it is not given one message after another from standard input: a line,
// or several of which all but the last end in a backslash. "-" is the whole of standard input. With
// a terminal Ctrl-C ends an answer, and Ctrl-D the conversation.
void run_chat(const GenerationArguments& generation, const ChatArguments& arguments);

}  // namespace thinwire::cli

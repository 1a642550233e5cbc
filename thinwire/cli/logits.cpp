// thinwire logits: what a model predicts after every token of a text, or an encoder of the whole
// text, for comparison with other programs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/number_tokens.h"
#include "thinwire/base/threads.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/convert/load.h"
#include "thinwire/data/labels.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/eval/text_row.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/batch.h"
#include "thinwire/model/registry.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::cli {
namespace {

struct LogitsArguments {
  std::string model;
  std::optional<std::string> text, pair;
  std::string tokens;
  std::string out;
  int threads = available_cores();
  config::DeviceChoice device = config::DeviceChoice::kCpu;
};

// "5,17,2"
std::vector<int32_t> parse_tokens(const std::string& list) {
  std::vector<int32_t> tokens;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (true) {
    int32_t token = 0;
    const auto [next, status] = std::from_chars(at, end, token);
    if (status != std::errc() || token < 0 || (next != end && *next != ',')) {
      throw UsageError(fmt::format(
          "--tokens must be whole numbers >= 0 with commas between them, got \"{}\"", list));
    }
    tokens.push_back(token);
    if (next == end) return tokens;
    at = next + 1;
  }
}

model::Placement placement_of(const LogitsArguments& arguments) {
  return model::placement_of(arguments.device, 0, kDeviceOption);
}

bool encodes(const convert::LoadedModel& loaded) {
  return method::find_architecture(loaded.model.architecture).encodes;
}

std::vector<int32_t> tokens_of(const LogitsArguments& arguments,
                               const convert::LoadedModel& loaded) {
  if (!arguments.tokens.empty()) return parse_tokens(arguments.tokens);
  if (loaded.vocabulary == nullptr) {
    throw Error(fmt::format("{} holds no vocabulary, so --text has no tokens; give --tokens",
                            arguments.model));
  }
  if (encodes(loaded)) {
    return data::encode_classified(*loaded.vocabulary, *arguments.text, arguments.pair);
  }
  std::vector<int32_t> tokens = loaded.vocabulary->encode(*arguments.text);
  if (loaded.begin >= 0) tokens.insert(tokens.begin(), loaded.begin);
  if (tokens.empty()) throw UsageError("--text has no tokens; expected at least one");
  return tokens;
}

// JSON knows no other numbers.
std::string json_number(float value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

std::string row_text(std::span<const float> logits) {
  std::string row;
  for (const float logit : logits) row += (row.empty() ? "[" : ", ") + json_number(logit);
  return row + "]";
}

void print_json(model::Decoder& decoder, std::span<const int32_t> tokens) {
  write_output(fmt::format("{{\"tokens\": [{}], \"logits\": [", fmt::join(tokens, ", ")));
  const char* between = "\n";
  decoder.prefill_each(tokens, [&](std::span<const float> logits) {
    write_output(between + row_text(logits));
    between = ",\n";
  });
  write_output("]}\n");
}

// An encoder's one row: of the classes, or a number.
void run_classes(const LogitsArguments& arguments, const convert::LoadedModel& loaded,
                 std::span<const int32_t> tokens) {
  ThreadPool threads(arguments.threads);
  const std::string list = fmt::format("{}", fmt::join(tokens, ", "));
  eval::TextRow row;
  row.add(tokens, target_tokens(
                      method::find_architecture(loaded.model.architecture).outputs(loaded.model)));
  const auto model =
      model::make_model({loaded.model, Precision::kFp32, *loaded.layout, *loaded.params, threads, 1,
                         row.predictions(), placement_of(arguments)});
  const std::vector<float> logits = model->class_logits(row.tokens(), 1, row.marks());
  if (arguments.out.empty()) {
    return write_output(
        fmt::format("{{\"tokens\": [{}], \"logits\": [\n{}]}}\n", list, row_text(logits)));
  }
  tensor::SafetensorsWriter writer(arguments.out, {{"logits", {1, std::ssize(logits)}}},
                                   DType::kF32, {{"tokens", fmt::format("[{}]", list)}});
  writer.write(logits);
  writer.commit();
  events::print_message(fmt::format("{} tokens, {} logits", tokens.size(), logits.size()));
}

void write_safetensors(const std::string& path, model::Decoder& decoder,
                       std::span<const int32_t> tokens, int64_t vocabulary) {
  tensor::SafetensorsWriter writer(path,
                                   {{"logits", {static_cast<int64_t>(tokens.size()), vocabulary}}},
                                   DType::kF32, {{"tokens", fmt::format("{}", tokens)}});
  decoder.prefill_each(tokens, [&](std::span<const float> logits) { writer.write(logits); });
  writer.commit();
}

void run_logits(const LogitsArguments& arguments) {
  if (arguments.text.has_value() == !arguments.tokens.empty()) {
    throw UsageError("logits needs one of --text and --tokens");
  }
  std::error_code no_name;  // it may be longer than names are
  if (arguments.text && fs::is_regular_file(*arguments.text, no_name)) {
    events::print_message(fmt::format(
        "--text is the text itself, and there is a file named {0}; for what it holds, give --text "
        "\"$(cat {0})\"",
        *arguments.text));
  }
  const convert::LoadedModel loaded = convert::load_model(arguments.model);
  for (const std::string& notice : loaded.notices) events::print_message(notice);
  if (arguments.pair && !encodes(loaded)) {
    throw UsageError("--text-pair is for encoders, which read two texts at once");
  }
  const std::vector<int32_t> tokens = tokens_of(arguments, loaded);
  model::check_tokens(tokens, loaded.model.vocab);  // before anything is written
  if (encodes(loaded)) return run_classes(arguments, loaded, tokens);
  const auto length = static_cast<int64_t>(tokens.size());
  ThreadPool threads(arguments.threads);
  const model::DecoderParts parts = {loaded.model, *loaded.params, threads, length,
                                     placement_of(arguments)};
  const std::string warning = model::check_decoder_memory("the logits", parts, "");
  if (!warning.empty()) events::print_message(warning);
  const auto decoder = model::make_decoder(parts);
  if (arguments.out.empty()) return print_json(*decoder, tokens);
  write_safetensors(arguments.out, *decoder, tokens, loaded.model.vocab);
  events::print_message(
      fmt::format("{} tokens, {} logits each", tokens.size(), loaded.model.vocab));
}

std::string refuse_other_files(const std::string& name) {
  return name.ends_with(".safetensors") ? ""
                                        : fmt::format("must end in .safetensors, got {}", name);
}

}  // namespace

void add_logits(CLI::App& app) {
  auto* command = add_command(
      app, "logits",
      "Writes what a model predicts after every token of a text, or an encoder of a text's "
      "class");
  const auto arguments = std::make_shared<LogitsArguments>();
  command
      ->add_option("model", arguments->model,
                   "Run folder (its newest checkpoint), checkpoint or Hugging Face folder")
      ->required()
      ->check(existing_folder());
  auto* text =
      command->add_option("--text", arguments->text,
                          "The text; the model's begin token is put before it, as generate does");
  command->add_option("--text-pair", arguments->pair, "Of an encoder: the second text")
      ->needs(text);
  command
      ->add_option("--tokens", arguments->tokens, "Token ids instead, as they are: 1,15043,29991")
      ->excludes(text);
  command
      ->add_option(
          "--out", arguments->out,
          "A new .safetensors file for \"logits\" [tokens, vocabulary] in fp32, with the token "
          "ids in its metadata (default: JSON on stdout)")
      ->check(refuse_other_files)
      ->check(new_file());
  add_count(*command, "--threads", arguments->threads, 1, kMaxThreads, "Compute threads");
  add_device(*command, arguments->device);
  add_quiet_flag(command);
  command->callback([arguments] { run_logits(*arguments); });
}

}  // namespace thinwire::cli

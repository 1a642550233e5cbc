// thinwire export: a trained model as a Hugging Face folder.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/convert/hf.h"
#include "thinwire/convert/peft.h"
#include "thinwire/events/progress.h"

namespace thinwire::cli {
namespace {

struct ExportArguments {
  std::string source;
  std::string out_dir;
  std::string dtype;
  std::string base;
  bool adapter = false;
};

void run_export(const ExportArguments& arguments) {
  std::optional<DType> dtype;
  if (!arguments.dtype.empty()) dtype = arguments.dtype == "bf16" ? DType::kBf16 : DType::kF32;
  if (arguments.adapter) {
    convert::export_peft(arguments.source, arguments.out_dir, dtype.value_or(DType::kF32),
                         show_tensors("export"));
  } else {
    const convert::Notes notes = convert::export_hf(arguments.source, arguments.out_dir, dtype,
                                                    show_tensors("export"), arguments.base);
    for (const std::string& note : notes) events::print_message(note);
  }
  fmt::print("{}\n", arguments.out_dir);
}

}  // namespace

void add_export(CLI::App& app) {
  auto* command =
      add_command(app, "export", "Writes a model as a Hugging Face folder that transformers loads");
  const auto arguments = std::make_shared<ExportArguments>();
  command
      ->add_option("model", arguments->source, "Run folder (its newest checkpoint) or checkpoint")
      ->required()
      ->check(existing_folder());
  command->add_option("out_dir", arguments->out_dir, "Folder to write; must be absent or empty")
      ->required()
      ->check(refuse_empty);
  command
      ->add_option("--dtype", arguments->dtype,
                   "Number format of the weights (default: fp32, or bf16 or fp16 if the model was "
                   "imported in it and every weight still is such a number)")
      ->check(one_of({"fp32", "bf16"}));
  auto* adapter = command->add_flag(
      "--adapter", arguments->adapter,
      "Write only the factors of a run with adapter.kind=lora, as a folder that PEFT loads");
  add_base(*command, arguments->base)->excludes(adapter);
  add_quiet_flag(command);
  command->callback([arguments] { run_export(*arguments); });
}

}  // namespace thinwire::cli

// thinwire import: a Hugging Face folder as a checkpoint.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/output.h"
#include "thinwire/convert/hf.h"
#include "thinwire/events/progress.h"

namespace thinwire::cli {
namespace {

struct ImportArguments {
  std::string hf_dir;
  std::string out_dir;
  std::string base;
  int64_t labels = 0;
};

void run_import(const ImportArguments& arguments) {
  for (const std::string& note :
       convert::import_hf(arguments.hf_dir, arguments.out_dir, show_tensors("reading"),
                          show_tensors("writing"), arguments.base, arguments.labels)) {
    events::print_message(note);
  }
  fmt::print("{}\n", arguments.out_dir);
}

}  // namespace

void add_import(CLI::App& app) {
  auto* command = add_command(
      app, "import",
      "Reads a Hugging Face or PEFT folder into a checkpoint, for train.init or generate");
  const auto arguments = std::make_shared<ImportArguments>();
  command
      ->add_option("hf_dir", arguments->hf_dir,
                   "Folder with config.json or adapter_config.json, and safetensors")
      ->required()
      ->check(existing_folder());
  command->add_option("out_dir", arguments->out_dir, "Folder to write; must be absent or empty")
      ->required()
      ->check(refuse_empty);
  add_base(*command, arguments->base);
  command
      ->add_option("--labels", arguments->labels,
                   "For an encoder without a classification head: draw one for this many classes, "
                   "or with 1 for a number")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  add_quiet_flag(command);
  command->callback([arguments] { run_import(*arguments); });
}

}  // namespace thinwire::cli

// thinwire init: a recipe to begin with.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/convert/load.h"
#include "thinwire/data/text.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/method/registry.h"
#include "thinwire/plan/initial_recipe.h"
#include "thinwire/train/initial_model.h"

namespace thinwire::cli {
namespace {

// Text in a compressed file, about, over its size.
constexpr double kCompression = 3.5;
// How much of a text shows whether it has blank lines, in bytes.
constexpr size_t kBeginning = 1 << 20;
// What the speed is measured with: the recipe of a machine of this speed.
constexpr double kFirstGuess = 30e9;

struct InitArguments {
  plan::InitialQuestion question;
  std::string out, model;
};

double bytes_of(const std::vector<data::InputFile>& text) {
  double bytes = 0;
  for (const data::InputFile& file : text) {
    const std::string ending = file.path.extension().string();
    const bool plain = ending == ".txt" || ending == ".jsonl";
    bytes += static_cast<double>(file.bytes) * (plain ? 1 : kCompression);
  }
  return bytes;
}

// What ends a document in the .txt files: a blank line, unless the first of them has none.
config::DocumentEnd document_end(const std::vector<data::InputFile>& text) {
  for (const data::InputFile& file : text) {
    if (file.path.extension() != ".txt") continue;
    const MappedFile file_text(file.path);
    const std::span<const uint8_t> bytes = file_text.bytes();
    const std::string beginning(bytes.begin(), bytes.begin() + std::min(bytes.size(), kBeginning));
    const bool blank = beginning.find("\n\n") != std::string::npos ||
                       beginning.find("\n\r\n") != std::string::npos;
    return blank ? config::DocumentEnd::kBlankLine : config::DocumentEnd::kLine;
  }
  return config::DocumentEnd::kBlankLine;
}

// The model in a folder, to be tuned.
plan::TunedModel tuned_model(const std::string& folder) {
  plan::TunedModel model = {.folder = folder, .vocabulary = {}, .recipe = {}};
  model.recipe = method::load_recipe({}, plan::tuning_fields(folder));
  train::take_initial_model(model.recipe);
  if (model.recipe.model.architecture != method::kLlama.name) {
    throw UsageError(fmt::format(
        "--model {}: a {} does not write text; begin with recipes/glue.toml (docs/finetuning.md)",
        folder, model.recipe.model.architecture));
  }
  const auto run = convert::open_run(folder);
  const auto vocabulary =
      data::Vocabulary::find_in(run == nullptr ? fs::path(folder) : run->folder());
  if (vocabulary == nullptr) {
    throw UsageError(
        fmt::format("--model {}: there is no vocabulary, and text cannot be prepared without the "
                    "model's own; add its tokenizer.json or tokenizer.model",
                    folder));
  }
  model.vocabulary = vocabulary->file().string();
  return model;
}

// FLOP/s in training of this machine, with the recipe of a usual one.
double speed_here(plan::InitialQuestion question) {
  question.flops = kFirstGuess;
  question.hours = 1;
  if (question.model) return flops_here(question.model->recipe, /*hosts=*/true, "--flops");
  const plan::InitialChoice usual = plan::initial_recipe(question);
  config::Recipe measured = usual.recipe;
  measured.model.vocab = usual.vocabulary;
  return flops_here(measured, /*hosts=*/true, "--flops");
}

// The recipe's file as the name of a run: "my run.toml" -> "my-run".
std::string run_name(const fs::path& recipe) {
  std::string name = recipe.stem().string();
  for (char& one : name) {
    if (std::isalnum(static_cast<unsigned char>(one)) == 0 && one != '_' && one != '.') one = '-';
  }
  return name.starts_with('.') ? "run" + name : name;
}

void init(InitArguments arguments) {
  plan::InitialQuestion& question = arguments.question;
  const fs::path out = arguments.out;
  question.name = run_name(out);
  const std::vector<data::InputFile> text = data::list_inputs(question.text);
  question.text_bytes = bytes_of(text);
  question.document = document_end(text);
  if (!arguments.model.empty()) question.model = tuned_model(arguments.model);
  const bool here = question.flops == 0;
  if (here) {
    question.threads = available_cores();
    question.flops = speed_here(question);
  }
  const plan::InitialChoice choice = plan::initial_recipe(question);
  const std::string machines = question.members > 1
                                   ? counted(question.members, "machine")
                                   : std::string(here ? "this machine" : "a machine");
  const std::string head = fmt::format(
      "# Written by thinwire init, for {} of text and {} of {} at {}FLOP/s; see docs/recipes.md, "
      "\"A first recipe\".\n",
      format_bytes(question.text_bytes), format_seconds(3600 * question.hours), machines,
      format_count(question.flops));
  write_file(out, head + choice.toml);
  const std::string_view short_text = !choice.text_is_short ? ""
                                      : question.model      ? "; more text could teach it more"
                                                       : "; a larger model would need more text";
  fmt::print("{}: {} parameters{}, {} tokens, about {}{}\n", out.string(),
             format_parameters(static_cast<double>(choice.parameters)),
             question.model ? " of LoRA" : "", format_count(choice.tokens),
             format_seconds(choice.seconds), short_text);
  fmt::print("  thinwire prepare {}\n", out.string());
  fmt::print("  thinwire {} {}\n", question.members == 1 ? "train" : "serve", out.string());
}

}  // namespace

void add_init(CLI::App& app) {
  auto* command = add_command(app, "init", "Writes a recipe for a text of yours, to begin with");
  const auto arguments = std::make_shared<InitArguments>();
  plan::InitialQuestion& question = arguments->question;
  command
      ->add_option("recipe", arguments->out,
                   "Recipe file to write, such as mine.toml; its name is the run's")
      ->required()
      ->check(new_file());
  command
      ->add_option("--text", question.text,
                   "Files or folders of text (.txt, .jsonl, also .gz, .bz2, .zst)")
      ->required()
      ->check(existing_path());
  command
      ->add_option("--model", arguments->model,
                   "Folder of a trained model that the text is to tune (a Hugging Face folder, an "
                   "imported checkpoint, or a run); without it a model is trained from scratch")
      ->check(existing_path());
  question.hours = 1;
  add_number(*command, "--hours", question.hours, {0.01, 1e5}, "How long training may take");
  add_count(*command, "--members", question.members, 1, 1000, "Equal machines that share the run");
  add_quantity(*command, "--up", question.up_bit_s, kRate, "bit/s", "A machine's line, upwards");
  add_quantity(*command, "--flops", question.flops, kRate, "FLOP/s",
               "Speed of a machine in training; without it that of this one is measured");
  add_quiet_flag(command);
  command->callback([arguments] { init(*arguments); });
}

}  // namespace thinwire::cli

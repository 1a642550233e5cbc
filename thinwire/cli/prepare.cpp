// thinwire prepare: text -> vocabulary and token shards.
#include "thinwire/data/prepare.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/config/check.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/initial_model.h"

namespace thinwire::cli {
namespace {

struct PrepareArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bool force = false;
};

// Shows one phase after another, by bytes or, if their number is not known, by time.
class PhaseProgress {
 public:
  void update(const data::PrepareProgress& now) {
    if (now.phase != phase_) {
      if (shown_) shown_->finish();
      phase_ = now.phase;
      shown_.reset();
      watch_ = Stopwatch();
      const bool timed = now.total == 0;
      if (timed) events::print_message(phase_);
      shown_.emplace(
          phase_, static_cast<int64_t>(now.total),
          events::ProgressOptions{
              .plain_interval_s = timed ? 10.0 : 2.0, .bytes = !timed, .seconds = timed});
    }
    for (const std::string& line : now.skipped.first) {
      if (named_.insert(line).second) events::print_message("skipped " + line);
    }
    if (!now.note.empty() && named_.insert(now.note).second) events::print_message(now.note);
    std::vector<events::ProgressField> fields;
    if (now.skipped.count > 0) fields.push_back({"skipped", fmt::format("{}", now.skipped.count)});
    const auto seconds = static_cast<int64_t>(watch_.seconds());
    shown_->update(now.total == 0 ? seconds : static_cast<int64_t>(now.done), std::move(fields));
  }
  void finish() {
    if (shown_) shown_->finish();
    shown_.reset();
  }

 private:
  std::string phase_;
  Stopwatch watch_;
  std::optional<events::Progress> shown_;
  std::set<std::string> named_;  // lines already named, since several phases skip each
};

void print_set(const data::SetSummary& set, const std::string& unit) {
  fmt::print("{:<14} {}, {}, {:.2f} bytes a token, {}\n", set.name, counted(set.documents, unit),
             counted(set.tokens, "token"),
             static_cast<double>(set.text_bytes) / static_cast<double>(set.tokens),
             counted(set.shards, "shard"));
}

void print_skipped(const data::SkippedLines& skipped) {
  if (skipped.count == 0) return;
  fmt::print("{:<14} {}\n", "skipped", counted(skipped.count, "bad line"));
  for (const std::string& line : skipped.first) fmt::print("{:<14} {}\n", "", line);
  if (skipped.count > skipped.first.size()) {
    fmt::print("{:<14} and {} more\n", "", skipped.count - skipped.first.size());
  }
}

void print_result(const data::PrepareSummary& summary) {
  if (summary.already_prepared) fmt::print("already prepared\n");
  fmt::print("{:<14} {}\n", "folder", summary.folder.string());
  fmt::print("{:<14} {}, {} tokens\n", "vocabulary", summary.vocabulary_file,
             summary.vocabulary_size);
  for (const data::SetSummary& set : summary.sets) print_set(set, summary.unit);
  fmt::print("{:<14} {} in {}\n", "replaced", counted(summary.replaced, "invalid UTF-8 sequence"),
             counted(summary.input_files, "input file"));
  print_skipped(summary.skipped);
}

// Classes and numbers of texts need an encoder, but their data is the same for any: which one may
// be left open here.
void check_model(const config::Recipe& recipe) {
  const bool encodes = method::find_architecture(recipe.model.architecture).encodes;
  if (recipe.train.init.empty() && (encodes || !is_labelled(recipe.data.records)))
    method::check_choices(recipe);
}

config::Recipe load_data_recipe(const PrepareArguments& arguments) {
  config::Recipe recipe = config::load_recipe(arguments.recipe, arguments.overrides,
                                              method::method_sections(), check_model);
  for (const std::string& notice : recipe.notices) events::print_message(notice);
  return recipe;
}

void run_prepare(PrepareArguments arguments) {
  separate_recipe(arguments.recipe, arguments.overrides);
  const config::Recipe recipe = load_data_recipe(arguments);
  catch_interrupts();
  PhaseProgress progress;
  const data::PrepareSummary summary =
      data::prepare(recipe.data, {.force = arguments.force,
                                  .progress = [&](const auto& now) { progress.update(now); },
                                  .cancelled = [] { return interrupts().any.load(); }});
  progress.finish();
  print_result(summary);
  const std::string note = train::turn_end_note(recipe, *data::Vocabulary::load(summary.folder));
  if (!note.empty()) events::print_message(note);
}

}  // namespace

void add_prepare(CLI::App& app) {
  auto* command = add_command(
      app, "prepare", "Turns text into a vocabulary and token shards, as a recipe's [data] says");
  const auto arguments = std::make_shared<PrepareArguments>();
  command->add_option("recipe", arguments->recipe, "Recipe file (TOML); may be left out");
  add_overrides(*command, arguments->overrides);
  command->add_flag("--force", arguments->force,
                    "Replace data that was prepared there from different text or settings");
  add_quiet_flag(command);
  command->callback([arguments] { run_prepare(*arguments); });
}

}  // namespace thinwire::cli

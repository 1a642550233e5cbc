#include "thinwire/checkpoint/run_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/events/run_log.h"
#include "thinwire/method/registry.h"

namespace thinwire::checkpoint {
namespace {

// Whether the folder holds anything that another run would destroy.
bool has_progress(const fs::path& folder) {
  const fs::path log = folder / "events.jsonl";
  return fs::exists(folder / "summary.json") || newest_checkpoint(folder / "checkpoints") ||
         (fs::exists(log) && !events::read_run_log(log).steps.empty());
}

}  // namespace

std::optional<config::Recipe> begun_recipe(const fs::path& folder) {
  if (!fs::exists(folder / kRecipeFile) || !has_progress(folder)) return std::nullopt;
  return method::load_recipe(folder / kRecipeFile, {});
}

RunFolder::RunFolder(const config::Recipe& recipe, bool restart, Claim claim)
    : path_(recipe.run.dir), restart_(restart), claimed_by_caller_(claim == Claim::kCallers) {
  if (claim == Claim::kOwn) claim_.emplace(path_, FolderOwner::kTrain);
  if (!restart) {
    if (auto before = begun_recipe(path_)) check_recipe(std::move(*before), recipe);
  }
  fs::create_directories(path_);
}

void RunFolder::check_recipe(config::Recipe before, const config::Recipe& recipe) {
  if (claimed_by_caller_) before.train.init = recipe.train.init;
  const std::string_view remedy = claimed_by_caller_
                                      ? "choose another run.dir"
                                      : "choose another run.dir, or pass --restart to start over";
  const std::vector<std::string> refused = compare_recipes(before, recipe, true).refused;
  if (!refused.empty()) {
    throw UsageError(fmt::format("{} holds a run of another recipe: {}; set it back, {}{}",
                                 path_.string(), fmt::join(refused, "; "),
                                 claimed_by_caller_ ? "or " : "", remedy));
  }
  if (!fs::exists(summary())) return;
  finished_ = recipe.train.steps == before.train.steps;
  if (finished_ || newest_checkpoint(checkpoints())) return;
  throw UsageError(
      fmt::format("{} is finished after {} steps and has no checkpoint from which to continue to "
                  "[train] steps = {}; {}",
                  path_.string(), before.train.steps, recipe.train.steps, remedy));
}

void RunFolder::begin(const config::Recipe& recipe) {
  fs::remove(summary());
  if (restart_) {
    for (const char* part : {"checkpoints", "best", "tensorboard", "reference", "events.jsonl"}) {
      fs::remove_all(path_ / part);
    }
  }
  write_file(path_ / kRecipeFile, config::print_recipe(recipe));
}

fs::path RunFolder::newest() const {
  if (restart_) return {};
  return newest_checkpoint(checkpoints()).value_or(fs::path());
}

}  // namespace thinwire::checkpoint

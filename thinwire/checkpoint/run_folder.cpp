#include "thinwire/checkpoint/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <unistd.h>

#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/events/run_log.h"
#include "thinwire/method/registry.h"

namespace thinwire::checkpoint {
namespace {

// Whether a folder without a recipe holds more than what a run leaves that ended while creating it.
bool holds_something(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path name = entry.path().filename();
    if (name != ".lock" && name != "recipe.toml.partial") return true;
  }
  return false;
}

}  // namespace

RunFolder::RunFolder(const config::Recipe& recipe, bool restart)
    : path_(recipe.run.dir), restart_(restart) {
  const bool known = fs::exists(path_ / kRecipeFile);
  if (!known && holds_something(path_)) {
    throw UsageError(
        fmt::format("[run] dir {} holds something that is not a run (it has no recipe.toml); "
                    "choose another folder",
                    path_.string()));
  }
  if (!restart && known && has_progress()) check_recipe(recipe);
  fs::create_directories(path_);
  lock();
}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::lock() {
  lock_ = ::open((path_ / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) throw Error(fmt::format("cannot create {}", (path_ / ".lock").string()));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    throw Error(fmt::format("another process is training in {}", path_.string()));
  }
}

bool RunFolder::has_progress() const {
  if (fs::exists(summary()) || newest_checkpoint(checkpoints())) return true;
  const fs::path log = path_ / "events.jsonl";
  return fs::exists(log) && !events::read_run_log(log).steps.empty();
}

void RunFolder::check_recipe(const config::Recipe& recipe) {
  const config::Recipe before = method::load_recipe(path_ / kRecipeFile, {});
  const std::vector<std::string> refused = compare_recipes(before, recipe, true).refused;
  if (!refused.empty()) {
    throw UsageError(
        fmt::format("{} holds a run of another recipe: {}; set it back, choose another run.dir, or "
                    "pass --restart to start over",
                    path_.string(), fmt::join(refused, "; ")));
  }
  if (!fs::exists(summary())) return;
  finished_ = recipe.train.steps == before.train.steps;
  if (finished_ || newest_checkpoint(checkpoints())) return;
  throw UsageError(
      fmt::format("{} is finished after {} steps and has no checkpoint from which to continue to "
                  "[train] steps = {}; choose another run.dir, or pass --restart to start over",
                  path_.string(), before.train.steps, recipe.train.steps));
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

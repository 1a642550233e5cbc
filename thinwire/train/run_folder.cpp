#include "thinwire/train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/registry.h"

namespace thinwire::train {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Lines of `now` that `before` does not have, joined for an error message.
std::string new_lines(const std::string& before, const std::string& now) {
  const std::vector<std::string> old_lines = lines_of(before);
  std::string found;
  for (const std::string& line : lines_of(now)) {
    if (std::find(old_lines.begin(), old_lines.end(), line) == old_lines.end()) {
      found += (found.empty() ? "" : "; ") + line;
    }
  }
  return found;
}

// Whether a folder without a recipe holds more than a run leaves that ended while it was made.
bool holds_something(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::path name = entry.path().filename();
    if (name != ".lock" && name != "recipe.toml.partial") return true;
  }
  return false;
}

}  // namespace

std::string run_identity(const config::Recipe& recipe) {
  config::Recipe same = recipe;
  same.run.name = {};
  same.run.dir = {};
  same.log = {};
  same.checkpoint = {};
  same.links = {};
  same.model.recompute = {};
  same.train.engine = {};
  same.eval.every = {};
  same.sync.timeout_s = config::SyncSection().timeout_s;
  return config::print_recipe(same);
}

RunFolder::RunFolder(const config::Recipe& recipe, bool restart) : path_(recipe.run.dir) {
  const fs::path recipe_file = path_ / "recipe.toml";
  if (!fs::exists(recipe_file) && holds_something(path_)) {
    throw UsageError(
        fmt::format("[run] dir {} holds something that is no run (it has no recipe.toml); choose "
                    "another folder",
                    path_.string()));
  }
  if (!restart && fs::exists(recipe_file)) check_recipe(recipe);
  fs::create_directories(path_);
  lock();
  if (restart) {
    for (const char* part : {"checkpoints", "tensorboard", "events.jsonl", "summary.json"}) {
      fs::remove_all(path_ / part);
    }
  }
  write_file(recipe_file, config::print_recipe(recipe));
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

void RunFolder::check_recipe(const config::Recipe& recipe) const {
  const fs::path file = path_ / "recipe.toml";
  const std::string before = run_identity(method::load_recipe(file, {}));
  const std::string now = run_identity(recipe);
  if (before == now) return;
  throw UsageError(
      fmt::format("{} holds a run of another recipe, which differs in: {}; choose another run.dir "
                  "or pass --restart",
                  path_.string(), new_lines(before, now)));
}

}  // namespace thinwire::train

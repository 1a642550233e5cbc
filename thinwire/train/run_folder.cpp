#include "thinwire/train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/registry.h"

namespace thinwire::train {
namespace {

// The recipe without what may differ between runs of the same bits.
config::Recipe essence(const config::Recipe& recipe) {
  config::Recipe same = recipe;
  same.run.name = {};
  same.run.dir = {};
  same.log = {};
  same.checkpoint = {};
  // Over simulated links they say how fast workers are.
  if (recipe.sync.shares == "equal") same.links = {};
  same.model.recompute = {};
  same.train.engine = {};
  same.eval.every = {};
  same.sync.timeout_s = config::SyncSection().timeout_s;
  return same;
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
  return config::print_changes(essence(recipe), method::load_recipe({}, {}));
}

uint64_t run_id(const config::Recipe& recipe, uint64_t vocabulary_digest, int numerics_version) {
  const uint64_t id = derive_seed(hash_bytes(as_bytes(run_identity(recipe))), vocabulary_digest);
  // The first version had no part in it.
  return numerics_version == 1 ? id : derive_seed(id, static_cast<uint64_t>(numerics_version));
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
  const config::Recipe before = method::load_recipe(file, {});
  std::string changes = config::print_changes(essence(recipe), essence(before));
  if (changes.empty()) return;
  changes.pop_back();
  std::ranges::replace(changes, '\n', ';');
  throw UsageError(
      fmt::format("{} holds a run of another recipe, which differs in: {}; choose another run.dir "
                  "or pass --restart",
                  path_.string(), changes));
}

}  // namespace thinwire::train

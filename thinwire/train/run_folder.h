// The folder of one run: recipe.toml, events.jsonl, tensorboard/, checkpoints/, summary.json. Only
// one process trains in it at a time, and only ever by one recipe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"

namespace thinwire::train {

// The recipe's fields that are not at their defaults, without those that say where a run lies, how
// it is watched and how much memory it takes (run.name, run.dir, [log], [checkpoint], [links],
// train.engine, eval.every, sync.timeout_s, model.recompute): runs with the same identity have the
// same bits. [links] counts where sync.shares = "speed": simulated links then decide the rows. A
// field that a later version adds leaves the identity of older runs as it is.
std::string run_identity(const config::Recipe& recipe);

// Names a run (base/round.h): its identity, its vocabulary, and the numerics version it began with.
uint64_t run_id(const config::Recipe& recipe, uint64_t vocabulary_digest, int numerics_version);

class RunFolder {
 public:
  // Opens or creates recipe.run.dir for this recipe. Throws UsageError when the folder holds a run
  // of another recipe (naming the fields that differ) or something that is no run, and Error when
  // another process trains there. restart: what an earlier run left is removed first.
  RunFolder(const config::Recipe& recipe, bool restart);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const fs::path& path() const { return path_; }
  fs::path checkpoints() const { return path_ / "checkpoints"; }
  fs::path summary() const { return path_ / "summary.json"; }
  // Whether the run is complete.
  bool finished() const { return fs::exists(summary()); }

 private:
  void lock();
  void check_recipe(const config::Recipe& recipe) const;

  fs::path path_;
  int lock_ = -1;
};

}  // namespace thinwire::train

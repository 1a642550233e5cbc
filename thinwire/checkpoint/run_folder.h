// The folder of one run: recipe.toml, events.jsonl, tensorboard/, checkpoints/, summary.json. Only
// one process trains in it at a time, and only ever one run.
#pragma once

#include <string>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"

namespace thinwire::checkpoint {

class RunFolder {
 public:
  // Opens or creates recipe.run.dir for this recipe; its contents stay unchanged until begin().
  // Throws UsageError when the folder holds a run with a different recipe (resume_rules.h; a run
  // that has not completed a step does not count) or something that is not a run, and Error when
  // another process trains there. restart: a run in the folder is ignored.
  RunFolder(const config::Recipe& recipe, bool restart);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Call this once everything that training needs is available, so that a failed start leaves the
  // folder as it was. Writes recipe.toml, and removes what a restart or the end of a shorter run
  // has made obsolete.
  void begin(const config::Recipe& recipe);

  const fs::path& path() const { return path_; }
  fs::path checkpoints() const { return path_ / "checkpoints"; }
  fs::path log() const { return path_ / "events.jsonl"; }
  fs::path summary() const { return path_ / "summary.json"; }
  // Whether the run is complete, with as many steps as the recipe has.
  bool finished() const { return finished_; }
  // The checkpoint to resume from; empty if there is none.
  fs::path newest() const;

 private:
  void lock();
  void check_recipe(const config::Recipe& recipe);
  // Whether the folder holds anything that another run would destroy.
  bool has_progress() const;

  fs::path path_;
  bool restart_;
  bool finished_ = false;
  int lock_ = -1;
};

}  // namespace thinwire::checkpoint

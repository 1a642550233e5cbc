// The folder of one run: recipe.toml, events.jsonl, tensorboard/, checkpoints/, summary.json. Only
// one process trains in it at a time, and only ever one run.
#pragma once

#include <string>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"

namespace thinwire::checkpoint {

class RunFolder {
 public:
  // Opens or creates recipe.run.dir for this recipe; what is there stays as it is until begin().
  // Throws UsageError when the folder holds a run of another recipe (resume_rules.h; a run that
  // has not completed a step leaves it to others) or something that is no run, and Error when
  // another process trains there. restart: what it holds of a run does not count.
  RunFolder(const config::Recipe& recipe, bool restart);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // To be called once all is there that training needs, so that a failed start leaves the folder
  // free: writes recipe.toml, and removes what a restart or the end of a shorter run has made
  // obsolete.
  void begin(const config::Recipe& recipe);

  const fs::path& path() const { return path_; }
  fs::path checkpoints() const { return path_ / "checkpoints"; }
  fs::path log() const { return path_ / "events.jsonl"; }
  fs::path summary() const { return path_ / "summary.json"; }
  // Whether the run is complete, with as many steps as the recipe has.
  bool finished() const { return finished_; }
  // The checkpoint to go on from; empty: there is none.
  fs::path newest() const;

 private:
  void lock();
  void check_recipe(const config::Recipe& recipe);
  // Whether there is anything that another run would spoil.
  bool has_progress() const;

  fs::path path_;
  bool restart_;
  bool finished_ = false;
  int lock_ = -1;
};

}  // namespace thinwire::checkpoint

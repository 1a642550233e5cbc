// The folder of one run: recipe.toml, events.jsonl, tensorboard/, checkpoints/, summary.json. Only
// one process trains in it at a time, and only ever one run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/checkpoint/folder_claim.h"
#include "thinwire/config/recipe.h"

namespace thinwire::checkpoint {

// Who claims it (folder_claim.h).
enum class Claim : uint8_t {
  kOwn,  // the RunFolder does, for `thinwire train`
  // The caller has, for as long as the RunFolder lives, for a member of a run. It has no --restart,
  // and checks the model in train.init by its digest, so that its folder may be another.
  kCallers,
};

// The recipe of the run that a folder holds, unless that has not completed a step.
std::optional<config::Recipe> begun_recipe(const fs::path& folder);

class RunFolder {
 public:
  // Opens or creates recipe.run.dir for this recipe; its contents stay unchanged until begin().
  // Throws UsageError when the folder holds a run with a different recipe (resume_rules.h; a run
  // that has not completed a step does not count), and as FolderClaim does. restart: a run in the
  // folder is ignored.
  RunFolder(const config::Recipe& recipe, bool restart, Claim claim = Claim::kOwn);

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
  // `before`: of the run in the folder.
  void check_recipe(config::Recipe before, const config::Recipe& recipe);

  fs::path path_;
  bool restart_;
  bool claimed_by_caller_;
  bool finished_ = false;
  std::optional<FolderClaim> claim_;
};

}  // namespace thinwire::checkpoint

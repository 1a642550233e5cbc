// Which fields of its recipe may change when a run is resumed: one table, from which the identity
// of a run follows as well. docs/recipes.md documents it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/config/recipe.h"

namespace thinwire::checkpoint {

// The effect on a run when a field changes in the middle of it.
enum class OnChange : uint8_t {
  kSameBits,   // none: the result does not depend on it
  kData,       // none: only the digests of the prepared data count, not how and where
  kOtherBits,  // the run continues, and says what differs from here on
};

struct ResumeRule {
  std::string_view field;  // "table.field", or "table.*" for a whole table
  OnChange on_change;
  std::string_view effect = {};  // kOtherBits: what differs from here on
};

// Changing a field that is not listed makes a different run. [links] matters only with sync.shares
// = "speed": simulated links then decide the rows.
std::span<const ResumeRule> resume_rules();

// What a recipe changes in a run, a sentence each.
struct RecipeChanges {
  std::vector<std::string> refused;  // "optim.lr was 0.1, is 0.2"
  std::vector<std::string> notices;  // "train.threads was 1, is 2: from here on ..."
};

// data_known: the data is compared by its digests, so the fields of [data] do not matter.
RecipeChanges compare_recipes(const config::Recipe& before, const config::Recipe& now,
                              bool data_known);

// The recipe's fields that are not at their defaults, a line each, without those of kSameBits: the
// identity of a run as far as the recipe determines it. Sweeps name folders after it. A field added
// by a later version leaves the identity of older runs unchanged.
std::string run_identity(const config::Recipe& recipe);

// The digest of each token set (data/shard.h), by name.
using DataDigests = std::map<std::string, uint64_t>;

// The digests of a run without texts, whose rows only the program that has the model knows.
inline const DataDigests kNoTexts = {{"train", 0}};

// What a run is made from.
struct RunSources {
  const config::Recipe& recipe;  // resolved
  uint64_t vocabulary_digest = 0;
  const DataDigests& data;
};

// The identity of a new run (base/round.h), from its recipe without [data] and what each member
// sets for its own machine (train.threads, train.device, train.precision), its vocabulary, its
// training set, and the numerics version with which it begins. A resumed run keeps the identity in
// its checkpoint.
uint64_t new_run_id(const RunSources& sources, int numerics_version);

// Resuming from a checkpoint: whether it is intact, and whether it belongs to this run.

// The newest intact checkpoint older than `folder`, if there is one.
std::optional<fs::path> newest_intact_before(const fs::path& folder);

// Opens a run's newest checkpoint. If it is damaged, the Error says so, names the newest intact
// older one, and says how to resume from it.
std::unique_ptr<CheckpointReader> open_newest(const fs::path& folder);

struct ResumeFacts {
  std::vector<std::string> notices;  // what differs from here on, a sentence each
  int64_t ended_at = 0;              // steps after which the run ended earlier; 0: never
};

// Throws UsageError, naming what differs and what can be done, when the checkpoint is from a run
// with a different recipe (resume_rules.h), vocabulary or data, or from a later step than the
// recipe has; and Error when a later program wrote it.
ResumeFacts check_resume(const CheckpointReader& checkpoint, const RunSources& now);

}  // namespace thinwire::checkpoint

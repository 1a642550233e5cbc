// Which fields of its recipe a run may change when it goes on: one table, which the identity of a
// run follows as well. docs/recipes.md shows it to people.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::checkpoint {

// What becomes of a run when a field changes under way.
enum class OnChange : uint8_t {
  kSameBits,   // nothing: the result does not depend on it
  kData,       // the same: what was prepared counts, by its digests, not how and where
  kOtherBits,  // it goes on, and says what is another from here
};

struct ResumeRule {
  std::string_view field;  // "table.field", or "table.*" for a whole table
  OnChange on_change;
  std::string_view effect = {};  // kOtherBits: what is another from here on
};

// Fields that are not listed make another run. [links] counts with sync.shares = "speed" only:
// simulated links then decide the rows.
std::span<const ResumeRule> resume_rules();

// What a recipe changes in a run, a sentence each.
struct RecipeChanges {
  std::vector<std::string> refused;  // "optim.lr was 0.1, is 0.2"
  std::vector<std::string> notices;  // "train.threads was 1, is 2: from here on ..."
};

// data_known: the data is compared by digests, so that the fields of [data] say nothing.
RecipeChanges compare_recipes(const config::Recipe& before, const config::Recipe& now,
                              bool data_known);

// The recipe's fields that are not at their defaults, a line each, without those of kSameBits: what
// a run is, as far as its recipe tells. Sweeps name folders by it. A field that a later version
// adds leaves the identity of older runs as it is.
std::string run_identity(const config::Recipe& recipe);

// The digest of each token set, by name (data/shard.h).
using DataDigests = std::map<std::string, uint64_t>;

// What a run is made from.
struct RunSources {
  const config::Recipe& recipe;  // resolved
  uint64_t vocabulary_digest = 0;
  const DataDigests& data;
};

// Names a new run (base/round.h): its recipe but [data] and what each member sets for its own
// machine (train.threads, train.device, train.precision), its vocabulary, its training set, and the
// numerics version it begins with. A run that goes on keeps the name its checkpoint has.
uint64_t new_run_id(const RunSources& sources, int numerics_version);

}  // namespace thinwire::checkpoint

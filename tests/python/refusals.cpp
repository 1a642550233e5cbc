// Asks the tables of refusals.h one after another, and says of the first pair that applies what the
// recipe has and what would do.
#include "thinwire/method/refusals.h"

#include "thinwire/base/error.h"
#include "thinwire/config/changes.h"
#include "thinwire/method/combinations.h"

namespace thinwire::method {

std::string local_update_methods(const Recipe& /*recipe*/) {
  return fmt::format(
      "a method whose workers train independently ({})",
      names_of(all_methods(), ", ", [](const Method& one) { return one.local_updates; }));
}

void check_pairs(const Recipe& recipe) {
  for (const auto pairs : {refusals_of_learning(), refusals_of_exchange(), refusals_of_memory()}) {
    for (const Pair& pair : pairs) {
      if (!pair.one.holds(recipe) || !pair.other.holds(recipe)) continue;
      throw UsageError(
          fmt::format(fmt::runtime(pair.sentence),
                      fmt::arg("one", config::printed_value(recipe, pair.one.field)),
                      fmt::arg("other", config::printed_value(recipe, pair.other.field)),
                      fmt::arg("able", pair.able == nullptr ? "" : pair.able(recipe))));
    }
  }
}

}  // namespace thinwire::method

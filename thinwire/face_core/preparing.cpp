#include "thinwire/preparing.h"

#include <set>

#include "thinwire/base/interrupt.h"
#include "thinwire/data/prepare.h"
#include "thinwire/face_spec/recipe_parts.h"

namespace thinwire {

PreparedData prepare_data(const Recipe& recipe, const PreparingOptions& options) {
  std::set<std::string> told;
  const auto tell = [&](const std::string& line) {
    if (options.on_message && told.insert(line).second) options.on_message(line);
  };
  data::PrepareOptions inner{.force = options.force};
  inner.progress = [&](const data::PrepareProgress& now) {
    for (const std::string& line : now.skipped.first) tell("skipped " + line);
    if (!now.note.empty()) tell(now.note);
    if (!options.on_progress) return;
    options.on_progress(
        now.phase,
        now.total == 0 ? 0 : static_cast<double>(now.done) / static_cast<double>(now.total));
  };
  inner.cancelled = [&] { return options.stop != nullptr && *options.stop; };
  try {
    const data::PrepareSummary summary = data::prepare(recipe.parts().recipe.data, inner);
    PreparedData prepared{.finished = true,
                          .unchanged = summary.already_prepared,
                          .folder = summary.folder,
                          .vocabulary_size = summary.vocabulary_size};
    for (const data::SetSummary& set : summary.sets) {
      prepared.sets.push_back({set.name, set.documents, set.tokens});
    }
    return prepared;
  } catch (const Interrupted&) {
    return {};
  }
}

}  // namespace thinwire

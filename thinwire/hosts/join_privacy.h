// What a member's owner is told, and may refuse, of a run that is trained on texts of members' own:
// its coordinator alone chooses how much noise hides them ([privacy]). docs/federated.md.
#pragma once

#include <cstdint>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"

namespace thinwire::hosts {

// Of a member that is about to take part: the run's clipping and noise, what this folder's member
// has told before, and what it will have told at the end of the run. `completed`: steps of its
// newest checkpoint, after which it goes on. Nothing for other runs. Throws UsageError if that is
// more than `most_epsilon` > 0, or nothing bounds it; Error for a damaged count (privacy_loss.h).
void tell_privacy(const config::Recipe& recipe, const fs::path& folder, int64_t completed,
                  double most_epsilon, const events::MessageSink& message);

}  // namespace thinwire::hosts

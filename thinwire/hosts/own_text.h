// A member's own text in a run with data.own: prepared with the run's vocabulary on this machine,
// which it never leaves. docs/federated.md.
#pragma once

#include <atomic>

#include "thinwire/base/file.h"
#include "thinwire/config/sections.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/run_description.h"

namespace thinwire::hosts {

// The folder in a member's run folder with what was prepared of its own text.
inline constexpr const char* kOwnTextFolder = "own";

struct OwnText {
  // What the member's owner names: a text, a folder of texts, a recipe (.toml) whose [data] names
  // texts and says how they are read, or a folder that `thinwire prepare` has made.
  fs::path given;
  config::RecordKind records = config::RecordKind::kText;  // the run's
  fs::path prepared;  // folder for what is prepared of it; not used for one that is
  const std::atomic<bool>* stop = nullptr;  // set from outside: stop preparing; may be null
};

// Makes the text the training set of `folder`, which has the run's vocabulary and validation sets
// (receive_data). Does nothing again that an earlier call has done, unless the text has changed
// since. Throws UsageError for a text that does not exist or holds other records than the run
// learns, a recipe without text, and a folder that was prepared with another vocabulary; Error for
// bad text.
void add_own_text(const OwnText& text, const fs::path& folder, const RunDescription& description,
                  const events::MessageSink& message);

}  // namespace thinwire::hosts

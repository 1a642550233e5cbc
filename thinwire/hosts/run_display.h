// What a coordinator's terminal shows: how members join, once the run is ready for them; during the
// run members that join, leave or are left out, and its progress.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/member/member.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"

namespace thinwire::hosts {

class RequestClient;
struct ServeOptions;

// Says how members join, on the terminal and in the ready file. `recipe`: resolved. Throws Error if
// options.ready_file cannot be written.
void tell_ready(const ServeOptions& options, const config::Recipe& recipe, const Entrance& entrance,
                const std::string& token);

// What a member's terminal shows besides its progress: its activity, such as which members it waits
// for, once that has lasted for a second; and how far it has caught up, every ten seconds.

// Any thread.
class ActivityDisplay {
 public:
  explicit ActivityDisplay(events::MessageSink print);
  ~ActivityDisplay();
  ActivityDisplay(const ActivityDisplay&) = delete;
  ActivityDisplay& operator=(const ActivityDisplay&) = delete;

  // Shows the activity once it has lasted for a second. Catching up is one activity, whatever its
  // text.
  void show(const member::Activity& activity);

 private:
  void show_what_lasts();

  const events::MessageSink print_;
  Mutex mutex_;
  Condition changed_;
  bool ended_ GUARDED_BY(mutex_) = false;
  uint64_t changes_ GUARDED_BY(mutex_) = 0;
  // The current activity; its text is empty while the member trains.
  member::ActivityKind kind_ GUARDED_BY(mutex_) = member::ActivityKind::kAsking;
  std::string text_ GUARDED_BY(mutex_);
  std::string shown_ GUARDED_BY(mutex_);  // the last one shown
  std::thread thread_;
};

// Used by one thread.
class RunDisplay {
 public:
  RunDisplay(const config::Recipe& recipe, MachineOf machine_of, const events::Display& display);

  // A record of the ledger, at `now`, in seconds of any clock; `earlier` as with serve::HostHooks.
  // The time left is estimated from rounds opened and closed since this coordinator's first
  // decision.
  void record(const membership::Record& record, bool earlier, double now);
  // Shows what has changed since the last call; of members that are there at the first, how many
  // are in which phase.
  void show(const membership::State& state);

 private:
  void show_changes(const membership::State& state);
  void show_earlier(const membership::State& state) const;

  const uint64_t steps_;
  const MachineOf machine_of_;
  const events::MessageSink print_;
  bool shown_ = false;                     // show() was called before
  std::vector<membership::Phase> phases_;  // as last shown
  std::map<uint64_t, uint64_t> open_;      // by round, the step after its last one
  events::Pace pace_;
  events::Progress progress_;
};

// What a member's owner is told, and may refuse, of a run that is trained on texts of members' own:
// its coordinator alone chooses how much noise hides them ([privacy]). docs/federated.md.

// Tells a member that is about to take part in a run with [privacy] of the run's clipping and
// noise, and bounds what this folder's member has told before and will have told at the end of the
// run. `completed`: steps of the member's newest checkpoint; the coordinator is asked for the
// run's. Throws UsageError if the bound is above `most_epsilon` > 0, or there is none; Error for a
// damaged count (privacy_loss.h).
void tell_privacy(RequestClient& requests, const config::Recipe& recipe, const fs::path& folder,
                  int64_t completed, double most_epsilon, const events::MessageSink& message);

}  // namespace thinwire::hosts

// A member of a run of many hosts: joins over a courier, catches up, trains, and leaves.
// docs/hosts.md.
//
// A member needs the run's recipe, its vocabulary and data on its own disk or the program's own
// model, and a courier whose name is that of its key (participant_name). It learns everything else
// from the ledger: when it takes part, with which rows, what counts, and which snapshot to start
// from. It holds no more than what a worker of `thinwire train` holds, and writes the same run
// folder: log, checkpoints by the recipe's rules, summary. Its losses are over its own rows.
//
// A member whose replica cannot continue (it differs from the others', its round was reopened, it
// fell too far behind) starts over from a snapshot by itself. One that returns after its process
// ended continues from its newest checkpoint if it can, and otherwise from a snapshot.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "thinwire/base/signature.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/shard.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/run_log.h"
#include "thinwire/events/summary.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/record.h"
#include "thinwire/train/own_learner.h"
#include "thinwire/train/site.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::member {

// What users are told of losses that a member measured.
inline constexpr const char* kOwnRows = "over this member's rows";

// What this machine has spent on the run since the last call, at the end of which it computed for
// so many seconds. Called by one thread at a time.
using SpentOn = std::function<membership::Spent(double seconds)>;

enum class ActivityKind : uint8_t {
  kAsking,      // has sent a join request and is not in the ledger yet
  kFetching,    // fetches a snapshot
  kCatchingUp,  // follows past rounds
  kTraining,
  kWaiting,   // for others, or for a round to open
  kAuditing,  // follows the run and compares what members send with their rows' gradients
};

struct Activity {
  ActivityKind kind = ActivityKind::kAsking;
  uint64_t round = 0;          // of the ledger, where there is one
  int64_t step = 0;            // training steps that its replica has completed
  std::vector<int> waits_for;  // with kWaiting: members whose contributions are missing
  std::string text;            // the same in words: "waits for members 1 and 3 in round 17"
};

// Both may be empty, are called from several threads, and must be quick.
struct MemberHooks {
  // Called whenever it changes, one call at a time.
  std::function<void(const Activity& activity)> activity;
  // A message for the user, perhaps several at once: it was refused, it starts over, it has audited
  // so much.
  std::function<void(const std::string& text)> message;
};

struct MemberOptions {
  // The run's recipe, resolved, with this machine's own fields: run.dir, data.dir, train.threads,
  // device and precision, [log], [links]. data.dir holds the run's vocabulary and tokens, and
  // train.init, which is empty without one, an adapter's base.
  config::Recipe recipe;
  membership::Founding founding;  // of the run; a ledger with another one is ignored
  // Has the tokens if data.dir has no more than the shards' headers; else null. May be used until
  // run_member returns.
  data::ShardBytes* shards = nullptr;
  // Files by name that its checkpoints keep for an export, which are the run's (origin_files).
  std::map<std::string, std::string> model_files = {};
  // The digest of an adapter's base, which recipe.train.init holds; 0: there is none.
  uint64_t base_digest = 0;
  double down_bytes_s = 0;                  // as measured; 0: not known
  const std::atomic<bool>* stop = nullptr;  // set from outside: leave cleanly; may be null
  MemberHooks hooks = {};
  double row_seconds = 0;  // minimum time per row; 0: as fast as possible
  // In a run with noise: it fails before a contribution after which others can have learnt more of
  // its text than this epsilon. 0: no limit.
  double most_epsilon = 0;
  // Energy and CO2, which its offers say; empty: they are not known.
  SpentOn spent_on = {};
  // Audits instead of training (docs/audits.md). The key is an auditor's and no member's; nothing
  // is sent but what it finds.
  bool audits = false;
  // The name of whoever stores again what members offer (serve::HostOptions::keeps), who is asked
  // for payloads that cannot be fetched from their holders. Empty: nobody does.
  std::string keeper = {};
  // Ranks that compute its gradients with it (train/site.h), which have nothing to do yet; null: it
  // is alone.
  train::Site* site = nullptr;
  // The program's own model, for recipes with model.architecture = "external", which have neither
  // vocabulary nor data; else null. A member that starts over makes its worker again.
  const train::OwnModel* own_model = nullptr;
  // Hears what the member records, as that of report::Recorder does, and again from where it starts
  // over. May be null.
  events::Listener* listener = nullptr;
  events::Display display = {};
};

enum class MemberOutcome : uint8_t {
  kFinished,  // the run is complete, and so is this member's replica
  kLeft,      // `stop` was set
  kRefused,   // it may not join, or not take part any longer; `why` says why
};

struct MemberResult {
  MemberOutcome outcome = MemberOutcome::kFinished;
  int64_t steps = 0;        // completed
  uint64_t digest = 0;      // of the final weights, as in the summary; only with kFinished
  events::Summary summary;  // also written to run.dir; only with kFinished
  std::string why;          // only with kRefused
  // The run has noise ([privacy]), so the training losses in the summary are for this machine only.
  bool is_private = false;
};

// Throws UsageError for recipes that such a run does not support, naming the field, its value and
// what would be valid. `thinwire serve` calls it before anything else.
void check_hosted(const config::Recipe& recipe);

// Takes part until the run is complete or `options.stop` is set. No other process may use run.dir
// meanwhile (checkpoint/folder_claim.h). Waits as long as it takes for the
// network and for others: an unreachable server is not a failure. Throws UsageError as check_hosted
// does and for recipes that do not fit the machine, the data or the folder; Error for anything that
// fails here, such as a full disk or a loss that is not finite. Before it throws, it announces that
// it leaves.
MemberResult run_member(transport::Courier& courier, const Signer& signer, MemberOptions options);

}  // namespace thinwire::member

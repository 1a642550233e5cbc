// Runs a coordinator (membership/coordinator.h) over a courier: receives the members' statements,
// reads the ledger, and carries out the coordinator's actions. docs/hosts.md.
//
// Names. Every participant's courier has a name derived from its key (participant_name),
// so that a key in the ledger tells whose blobs to request. Members publish statements on the topic
// kMembersTopic, or kAnnouncementsTopic, which only coordinators hear; coordinators on
// kCoordinatorsTopic; the ledger is the stream kLedgerStream, of messages_of() each record.
// membership/message_codec.h defines statements.
//
// Offered payloads are fetched and checked before they can count, so a commit never names bytes
// that cannot be fetched.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/payload_filter.h"
#include "thinwire/sync/committed_sum.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// All of them may be empty. They are called on the thread that ticks, with no locks held.
struct HostHooks {
  // The reason why the owner of a key may not become a member, shown to users; empty: it may. Also
  // called for members that return.
  std::function<std::string(const PublicKey& key)> refuse;
  // Whether a key was revoked: its owner is excluded once it says something, and told why.
  std::function<bool(const PublicKey& key)> is_revoked;
  // Whether the owner of a key audits the run, so that what it finds is believed (audit_board.h).
  // Empty: nobody does.
  std::function<bool(const PublicKey& key)> is_auditor;
  // The content of a payload, or why it cannot be applied; empty: nothing is checked. A payload
  // that is refused, by this check or in comparison with the others (payload_filter.h), is an
  // offence of its member.
  PayloadCheck check;
  // A record of the ledger was applied. `earlier`: it was written before this coordinator's first
  // decision, so its time is not known.
  std::function<void(const membership::Record& record, bool earlier)> record;
  // Records were applied, and this is the state after them. `complete`: the store has no others;
  // false while those are read that were there when this host started or found the store again.
  std::function<void(const membership::State& state, bool complete)> progress;
  // A member has reported its loss.
  std::function<void(const membership::Loss& loss)> loss;
  // A message for users: a participant or a payload was refused.
  std::function<void(const std::string& text)> message;
};

struct HostOptions {
  membership::Options membership;
  // Goes into the first record if the ledger is empty; lists this coordinator's key. Its weights
  // (member/snapshot.h) must be stored under this coordinator's name before the host starts.
  membership::Founding founding;
  // A record that the ledger has had before and must have again (membership/coordinator.h).
  membership::Position remembered = {};
  // A standby acts once something has been due for takeover_s and nobody has recorded it.
  bool standby = false;
  HostHooks hooks = {};
  std::optional<sync::SumRule> sums = std::nullopt;  // that it forms for members (sync::sum_rule)
  // Stores what members offer under its own name, too. What is stored under that name before the
  // host starts is not dropped with these copies, nor is what protect() names.
  bool keeps = false;
  bool equal_rows = true;  // of members, as audits take it (audit_board.h)
  // At most, of a snapshot in the middle of the run; 0: twice the initial weights.
  uint64_t snapshot_bytes = 0;
};

// A member's latest report, which is not in the ledger.
struct LatestReport {
  double silent_s = 0;      // since its last message, as of the last tick; without time slept
  uint64_t position = 0;    // the last record that its replica has applied; 0: none
  uint64_t behind = 0;      // rounds that were closed after it
  double step_seconds = 0;  // computing its last contribution; 0: not known
  std::optional<membership::AgreedDigest> digest;
  std::optional<uint64_t> offered;  // the newest round to which it has contributed
  std::optional<uint64_t> arrived;  // the newest one whose contribution is here and counts
  double down_bytes_s = 0;          // of its link, as it measured it; 0: not known
  bool left = false;                // its last message was a LeaveNotice
  // The server said that its connection ended, and it has said nothing since.
  bool disconnected = false;
  std::string refused;  // why its last refused payload does not count; empty: none was refused
  size_t audits = 0;    // of the last ones, that are compared (audit_board.h)
  double effect = 0;    // their mean
};

// tick() and run() belong to one thread; all other functions may be called from any thread.
class CoordinatorHost {
 public:
  // Everything referred to must outlive it. `courier` has the name of the signer's key. Throws
  // UsageError for invalid options or another name.
  CoordinatorHost(transport::Courier& courier, const Signer& signer,
                  const membership::RunPlan& plan, const HostOptions& options);
  ~CoordinatorHost();
  CoordinatorHost(const CoordinatorHost&) = delete;
  CoordinatorHost& operator=(const CoordinatorHost&) = delete;

  // Handles what has arrived since the last call and carries out what is due. Call it whenever
  // something happens, and at least every options.membership.retry_s(). `now`: seconds of a clock
  // that never goes back. Throws Error, with the reason, if the run cannot go on soundly
  // (membership::Halt).
  void tick(double now);
  // Ticks by the monotonic clock, whenever something arrives or is due, until `stop` is set (which
  // it notices within a second) or the run is over().
  void run(const std::atomic<bool>& stop);

  // The ledger's state as known here.
  membership::State state() const;
  // Whether this coordinator decides at present; false: it is a standby.
  bool leads() const;
  // What keeps this coordinator from deciding, in words; empty: nothing.
  std::string waits_for() const;
  // Tells members what the run waits for whenever it changes, and repeats it every report_s as a
  // sign that the coordinator is there.
  void tell(std::string waits_for);
  // By member id.
  std::map<int, LatestReport> reports() const;
  // Members of a finished run that have not applied all of it and have not left, except those that
  // have been silent for options.membership.linger_s(), or for silence_s() since this host started.
  std::vector<int> unfinished() const;
  // This blob, which will be stored under the courier's name, is not dropped. Before that, it may
  // be dropped as a copy of a payload (HostOptions::keeps).
  void protect(const Sha256& blob);
  // The owner of this key has reported the result of the finished run, so it has the final weights,
  // even if it said so only to a coordinator that is gone.
  void note_result(const PublicKey& key);
  // Whether the run is finished and unfinished() is empty.
  bool over() const;
  // The digest of the weights after the last round, as most members reported it; the same number as
  // in their summaries. Empty until a member has reported it.
  std::optional<uint64_t> final_digest() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::serve

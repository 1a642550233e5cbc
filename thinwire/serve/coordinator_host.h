// Runs a coordinator (membership/coordinator.h) over a courier: hears what members say, reads the
// ledger, and carries out what the coordinator asks for. docs/hosts.md.
//
// Names. Everybody's courier has the name that follows from its key (transport::participant_name),
// so that whoever reads a key in the ledger knows whose blobs to ask for. Members make statements
// on the topic kMembersTopic, coordinators on kCoordinatorsTopic; the ledger is the stream
// kLedgerStream. membership/message_codec.h says what a statement looks like.
//
// What is offered is fetched and checked before it can count, so a commit never names bytes that
// nobody can get.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "thinwire/base/bytes.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/payload_check.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

inline constexpr const char* kMembersTopic = "member";
inline constexpr const char* kCoordinatorsTopic = "coordinator";
inline constexpr const char* kLedgerStream = "ledger";

// All of them may be empty. They are called on the thread that ticks, with no locks held.
struct HostHooks {
  // Why somebody who is no member yet may not become one, as text for people; empty: it may. Also
  // asked of members that come back.
  std::function<std::string(const PublicKey& key)> refuse;
  // What is in a payload, or why it cannot be applied; empty: nothing is checked. A payload that is
  // refused, by this or beside the others' (payload_judge.h), is an offence of its member.
  PayloadCheck check;
  // A record of the ledger was applied. `earlier`: it was there before this coordinator first
  // decided something, so nothing is known of when.
  std::function<void(const membership::Record& record, bool earlier)> record;
  // A record was applied, and this is the state after it.
  std::function<void(const membership::State& state)> progress;
  // Something happened that people should know: somebody was refused, a payload was bad.
  std::function<void(const std::string& text)> say;
};

struct HostOptions {
  membership::Options membership;
  // Goes into the first record if the ledger is empty; lists this coordinator's key. Its weights
  // (member/run_beginning.h) must be stored under this coordinator's name before the host starts.
  membership::Founding founding;
  // A standby acts once something has been due for takeover_s and nobody has recorded it.
  bool standby = false;
  HostHooks hooks = {};
};

// What was last heard of a member, for people; it is not in the ledger.
struct MemberNews {
  double heard_at = 0;      // seconds of the clock of tick()
  uint64_t position = 0;    // the record up to which its replica has come; 0: it has none
  double step_seconds = 0;  // that it computed for its last contribution; 0: not known
  std::optional<membership::AgreedDigest> digest;
  std::optional<uint64_t> offered;  // the newest round to which it has contributed
  std::optional<uint64_t> arrived;  // the newest one whose contribution is here and counts
  double down_bytes_s = 0;          // of its link, as it measured it; 0: not known
  bool left = false;                // said goodbye last
  std::string refused;  // why its last payload that was refused must not count; empty: none was
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

  // Handles what has arrived since the last call and does what is due. Call it whenever something
  // happens, and at least every options.membership.retry_s(). `now`: seconds of a clock that never
  // goes back.
  void tick(double now);
  // Ticks by the monotonic clock, whenever something arrives or is due, until `stop` is set (which
  // it notices within a second) or the run is over().
  void run(const std::atomic<bool>& stop);

  // The ledger's state as known here.
  membership::State state() const;
  // Whether this coordinator decides at present; false: it is a standby.
  bool leads() const;
  // By member id.
  std::map<int, MemberNews> news() const;
  // Whether the run is finished and every member that is still there has applied all of it.
  bool over() const;
  // The digest of the weights after the last round, as most members reported it; the same number as
  // in their summaries. Empty until somebody has.
  std::optional<uint64_t> final_digest() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::serve

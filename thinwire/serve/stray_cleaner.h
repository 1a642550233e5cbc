// Deletes from the store what members left there and nothing needs, and finds out who stores too
// much of it (StrayChunks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/serve/store_cleaner.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// Finds blobs that members have stored and nothing needs: payloads that came too late to count,
// snapshots that the ledger does not have, and whatever else somebody stores. A pure state machine
// over lists of what each member has in the store.
//
// Strays are blobs that are no payload or snapshot known to the host, and the chunks beyond those
// that one of these can have. What a member is just storing looks like one, too. So strays are
//   spent     once they have been strays for kSpentRounds rounds. By then the round of a payload is
//             closed, and the digest that a snapshot must have is no longer known (State's
//             agreed_digests);
//   too many  if the chunks that appeared between two listings and are still strays in the next are
//             more than `allowance` allows. What the first listing shows is not counted, because it
//             may be from before this host started.
inline constexpr uint64_t kSpentRounds = membership::State::kDigestsKept + 1;

// What a member may have stored and not used: an upper bound on the chunks of its contributions to
// a round, and of a snapshot.
struct StrayAllowance {
  uint64_t round_chunks = 0;
  uint64_t snapshot_chunks = 0;
  uint64_t open_rounds = 1;  // at most

  // While so many rounds opened: kMaxOffers payloads of each operation (payload_filter.h), and four
  // snapshots, as many as the coordinator requests within a time-out.
  uint64_t in(uint64_t rounds) const;
};

// Not thread-safe.
class StrayChunks {
 public:
  struct Finding {
    std::vector<Sha256> spent;
    uint64_t appeared = 0;    // chunks that appeared between the two lists before this one
    uint64_t allowed = 0;     // of them
    bool suspicious = false;  // chunks are new in this list, more of them than are allowed
    bool too_many() const { return appeared > allowed; }
  };

  // All members are about to be listed, while round `next_round` is the next to open.
  void begin(uint64_t next_round);
  // `strays`: of this member.
  Finding listed(int member, const std::vector<transport::StoredBlob>& strays,
                 const StrayAllowance& allowance);

 private:
  struct Known {
    uint64_t since = 0;   // the next round when it was first listed
    uint64_t chunks = 0;  // in the latest list
    uint64_t fresh = 0;   // of them, those that first appeared in it
  };
  struct Member {
    uint64_t allowed = 0;  // of the chunks that appeared in the latest list
    std::map<Sha256, Known> strays;
  };

  bool first_ = true;            // no listing has begun, or only one
  uint64_t before_ = 0;          // the next round when the listing before this one began
  std::optional<uint64_t> now_;  // likewise, of this one
  std::map<int, Member> members_;
};

// When all members are to be listed: once the store has that many more unused chunks than at the
// last listing, or kSpentRounds rounds and some time have passed. Not thread-safe.
class ListingSchedule {
 public:
  // `unused`: chunks in the store. `more`: than at the last listing. `period_s`: between listings.
  bool is_due(uint64_t unused, uint64_t more, uint64_t next_round, double now,
              double period_s) const;
  // All have been listed. `again`: at once, something was suspicious.
  void listed(uint64_t unused, uint64_t next_round, double now, bool again);

 private:
  uint64_t unused_ = 0;
  uint64_t round_ = 0;
  std::optional<double> at_;
  bool again_ = false;
};

// Belongs to the thread that ticks the host.
class StrayCleaner {
 public:
  // `store` must outlive it. The courier's answers go to `inbox`, perhaps after this object is
  // destroyed. snapshot_bytes: of the coordinator's HostOptions.
  StrayCleaner(transport::Courier& courier, std::shared_ptr<Inbox> inbox, const StoreCleaner& store,
               const membership::Options& options, uint64_t overlap, uint64_t snapshot_bytes);

  // Requests what is due. `state`: of the ledger, as passed to store.clean().
  void tick(const membership::State& state, double now);
  void take(const CountedStore& counted, const membership::State& state);
  // Returns the offence of the member, if it stores too much.
  std::optional<membership::Misconduct> take(const ListedMember& listed,
                                             const membership::State& state);

 private:
  void note_sizes(const membership::State& state);
  void list_next(const membership::State& state);
  std::string holder(const membership::State& state, int member) const;

  transport::Courier& courier_;
  const std::shared_ptr<Inbox> inbox_;
  const StoreCleaner& store_;
  const uint64_t snapshot_bytes_;
  const double poll_s_;
  const double timeout_s_;
  StrayChunks strays_;
  ListingSchedule schedule_;
  StrayAllowance allowance_;
  double now_ = 0;
  double next_poll_ = 0;
  bool asked_ = false;       // a count or list is on its way
  std::deque<int> to_list_;  // members
  uint64_t unused_ = 0;      // chunks in the store, as last counted
  bool again_ = false;       // a member that was listed is to be listed again soon
};

}  // namespace thinwire::serve

// Deletes from the store what members left there and nothing needs, and finds out who stores too
// much of it (stray_chunks.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/membership/messages.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/serve/store_cleaner.h"
#include "thinwire/serve/stray_chunks.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// Belongs to the thread that ticks the host.
class StrayCleaner {
 public:
  // `store` must outlive it. The courier's answers go to `inbox`, perhaps after this object is
  // destroyed.
  StrayCleaner(transport::Courier& courier, std::shared_ptr<Inbox> inbox, const StoreCleaner& store,
               const membership::Options& options, uint64_t overlap);

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

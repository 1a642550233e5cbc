// Copies of members' payloads under the coordinator's own name, for when their holders cannot be
// reached (HostOptions::keeps).
#pragma once

#include <memory>
#include <utility>

#include "thinwire/membership/state.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/serve/store_cleaner.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// Belongs to the thread that ticks the host.
class PayloadCopies {
 public:
  // All must outlive it; the courier's answers go to `inbox`, perhaps after this object is
  // destroyed. The cleaner drops the copies.
  PayloadCopies(transport::Courier& courier, std::shared_ptr<Inbox> inbox, StoreCleaner& cleaner)
      : courier_(courier), inbox_(std::move(inbox)), cleaner_(cleaner) {}

  // Asks what is stored under the courier's name besides copies, of which some may have the same
  // chunks. Before the answer no copy is dropped.
  void begin();
  void take(OwnChunks own);

  void keep(const UnkeptPayload& payload);
  // One that could not be stored. It is tried again as long as its round counts.
  void take(const UnkeptPayload& payload, const membership::State& state);

 private:
  transport::Courier& courier_;
  const std::shared_ptr<Inbox> inbox_;
  StoreCleaner& cleaner_;
};

}  // namespace thinwire::serve

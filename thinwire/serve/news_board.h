// What members last reported, for display: it is not in the ledger.
#pragma once

#include <map>
#include <string>

#include "thinwire/membership/message_codec.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::serve {

// Not thread-safe. Times are seconds of the clock of CoordinatorHost::tick.
class NewsBoard {
 public:
  // From whoever has this key, member or not yet.
  void hear(const membership::Hello& hello);
  // `message` is from this member, whose key is `key`.
  void hear(int member, const PublicKey& key, const membership::Message& message, double now);
  // The contribution is here, and counts.
  void arrived(const membership::Offer& offer);
  // The contribution does not count; `why`: text for people.
  void refused(const membership::Offer& offer, const std::string& why);

  const std::map<int, MemberNews>& all() const { return all_; }

 private:
  std::map<int, MemberNews> all_;  // by id
  std::map<PublicKey, double> down_bytes_s_;
};

}  // namespace thinwire::serve

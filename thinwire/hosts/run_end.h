// The end of a served run: which members it is still served for, whose results are awaited, and its
// summary.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "thinwire/base/signature.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/summary.h"
#include "thinwire/hosts/member_results.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::hosts {

// note() is called by the coordinator's thread until the run is over, everything else by one other
// thread.
class RunEnd {
 public:
  // `recipe`: resolved; it must outlive this.
  explicit RunEnd(const config::Recipe& recipe) : recipe_(recipe), results_(recipe) {}

  // Takes those that are present once the run is finished as the members whose results are awaited.
  void note(const membership::State& state);
  void add(const PublicKey& member, const events::Summary& summary) {
    results_.add(member, summary);
  }
  // A message, once: the members that are present have the final weights, and the run is still
  // served for others. Otherwise empty.
  std::string waiting_message(const serve::CoordinatorHost& host);
  // Once the run is over: whether to keep waiting for results or for the digest, which ends some
  // time after the last member that has yet to report was present. `now`: seconds of any clock.
  bool awaits_results(const serve::CoordinatorHost& host, double now);
  // The digest of the final weights; nothing if nobody has reported it.
  std::optional<uint64_t> digest(const serve::CoordinatorHost& host) const;
  events::Summary summarise(uint64_t digest) const { return results_.summarise(digest); }

 private:
  const config::Recipe& recipe_;
  MemberResults results_;
  std::map<int, PublicKey> finishers_;
  bool told_ = false;
  std::optional<double> quiet_since_;  // since when no member that has yet to report is present
};

}  // namespace thinwire::hosts

// The end of a run that is served: for whom it is served on, whose results are waited for, and its
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

// note() is called by the coordinator's thread until the run is over, all else by another.
class RunEnd {
 public:
  // `recipe`: resolved; it must outlive this.
  explicit RunEnd(const config::Recipe& recipe) : recipe_(recipe), results_(recipe) {}

  // The members that are present once the run is finished report their results.
  void note(const membership::State& state);
  void add(const PublicKey& member, const events::Summary& summary) {
    results_.add(member, summary);
  }
  // Once those that are there have the final weights, and others may still come for them: a
  // sentence that says so, the first time; else empty.
  std::string for_whom(const serve::CoordinatorHost& host);
  // Once the run is over: whether somebody who is there has yet to report, or the digest is not
  // known. `now`: seconds of any clock.
  bool awaits_results(const serve::CoordinatorHost& host, double now);
  // Of the final weights; nothing where nobody has said.
  std::optional<uint64_t> digest(const serve::CoordinatorHost& host) const;
  events::Summary summarise(uint64_t digest) const { return results_.summarise(digest); }

 private:
  const config::Recipe& recipe_;
  MemberResults results_;
  std::map<int, PublicKey> finishers_;
  bool told_ = false;
  std::optional<double> quiet_since_;  // since when nobody is there who has yet to report
};

}  // namespace thinwire::hosts

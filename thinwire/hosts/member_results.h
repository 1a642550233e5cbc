// The results that the members of a complete run report, combined into the run's summary.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "thinwire/base/signature.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/summary.h"

namespace thinwire::hosts {

class MemberResults {
 public:
  // `recipe`: resolved; it must outlive this.
  explicit MemberResults(const config::Recipe& recipe) : recipe_(recipe) {}

  void add(const PublicKey& member, const events::Summary& summary) { all_[member] = summary; }
  bool has(const PublicKey& member) const { return all_.contains(member); }
  // The digest of the final weights that most members reported; nothing if none did.
  std::optional<uint64_t> digest() const;
  // Losses, accuracies, bytes and times are means over the members that reported; losses are NaN if
  // none did.
  events::Summary summarise(uint64_t digest) const;

 private:
  using Values = std::map<std::string, double>;
  // Sets each of these values to its mean over the members; NaN if one of them lacks it.
  void take_means(Values events::Summary::*values, events::Summary& summary) const;

  const config::Recipe& recipe_;
  std::map<PublicKey, events::Summary> all_;
};

}  // namespace thinwire::hosts

#include "thinwire/membership/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/median.h"

namespace thinwire::membership {
namespace {

void require(bool holds, std::string_view field, std::string_view right, double value) {
  if (!holds) throw UsageError(fmt::format("{} must be {}, got {}", field, right, value));
}

}  // namespace

void Options::check() const {
  require(std::isfinite(timeout_s) && timeout_s > 0, "timeout_s", "above 0 and finite", timeout_s);
  require(quorum > 0 && quorum <= 1, "quorum", "above 0 and at most 1", quorum);
  require(std::isfinite(spread) && spread >= 0, "spread", "at least 0 and finite", spread);
  require(max_offences >= 1, "max_offences", "at least 1", static_cast<double>(max_offences));
}

Options options_of(const config::SyncSection& sync) {
  Options options;
  options.timeout_s = sync.timeout_s;
  options.quorum = sync.quorum;
  options.late_counts = sync.late == config::LateContributions::kCount;
  options.shares = sync.shares;
  return options;
}

double deadline_s(const Options& options, std::vector<double> arrivals) {
  const double middle = median_of(arrivals);
  for (double& arrival : arrivals) arrival = std::abs(arrival - middle);
  const double grace = std::max(options.spread * median_of(arrivals), options.min_grace_s());
  return std::min(middle + grace, options.timeout_s);
}

}  // namespace thinwire::membership

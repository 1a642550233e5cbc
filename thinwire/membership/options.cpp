#include "thinwire/membership/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/maths.h"
#include "thinwire/config/recipe.h"

namespace thinwire::membership {
namespace {

// The share of a typical round: with a quorum, members that are slower than the median by less are
// waited for however close together the others are.
constexpr double kStepShare = 0.25;

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

bool decides_by_evaluations(const config::Recipe& recipe) {
  return recipe.eval.patience > 0 || recipe.checkpoint.best;
}

Options options_of(const config::Recipe& recipe) {
  Options options = options_of(recipe.sync);
  if (decides_by_evaluations(recipe)) options.watch = recipe.eval.watch;
  options.patience = static_cast<uint64_t>(recipe.eval.patience);
  return options;
}

// With overlap, contributions may arrive before their round becomes the oldest: then only the last
// round shows how long one takes.
Deadlines deadlines_of(const Options& options, std::vector<double> arrivals, double round_s) {
  const double middle = median_of(arrivals);
  for (double& arrival : arrivals) arrival = std::abs(arrival - middle);
  const double spread = options.spread * median_of(std::move(arrivals));
  const double typical = std::max({middle, round_s, 0.0});
  const double last = typical + options.timeout_s;
  const double patience =
      round_s > 0 ? std::min(options.return_s(), kStepShare * typical) : options.return_s();
  return {.slow = std::min(middle + std::max(spread, patience), last),
          .absent = std::min(middle + std::max(spread, options.return_s()), last),
          .last = last};
}

}  // namespace thinwire::membership

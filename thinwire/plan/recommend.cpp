#include <fmt/format.h>

#include <limits>

#include "thinwire/base/units.h"
#include "thinwire/plan/method_cost.h"

namespace thinwire::plan {
namespace {

constexpr double kSameTime = 1.01;
constexpr double kAboutTheSame = 1.05;  // in sentences

bool fits(const MethodCost& cost) { return cost.runs && cost.too_small.empty(); }
bool eligible(const MethodCost& cost) { return fits(cost) && cost.loss.nats.has_value(); }

// The order in which other candidates are worth a word: known losses first, then the faster one.
bool before(const MethodCost& a, const MethodCost& b) {
  const bool known = a.loss.nats.has_value();
  return known == b.loss.nats.has_value() ? a.seconds < b.seconds : known;
}

// Compares another candidate with the best, and says why it is not the best if it is faster.
std::string compared(const MethodCost& other, const MethodCost& best) {
  const double times = other.seconds / best.seconds;
  const std::string seconds = format_seconds(other.seconds);
  if (times > kAboutTheSame) {
    return fmt::format("{} takes {}, {:.3g} times as long", other.name(), seconds, times);
  }
  if (times >= 1 / kAboutTheSame) return fmt::format("{} takes about as long", other.name());
  const std::string faster =
      fmt::format("{} takes {}, {:.3g} times faster, but ", other.name(), seconds, 1 / times);
  if (!other.loss.nats) return faster + fmt::format("its loss is unknown ({})", other.loss.basis);
  return faster + fmt::format("is expected to end {:.3f} higher ({})",
                              *other.loss.nats - *best.loss.nats, other.loss.basis);
}

std::vector<std::string> reasons_for(std::span<const MethodCost> costs, const MethodCost& best,
                                     double least) {
  std::vector<std::string> reasons = {fmt::format("{} for the run, {:.3g} % of it computing",
                                                  format_seconds(best.seconds),
                                                  100 * best.utilization)};
  const MethodCost* other = nullptr;
  for (const MethodCost& cost : costs) {
    if (!fits(cost) || cost.method == best.method) continue;
    if (other == nullptr || before(cost, *other)) other = &cost;
  }
  if (other != nullptr) reasons.push_back(compared(*other, best));
  reasons.push_back(fmt::format("expected loss {:.3f}, {:.3f} above the lowest here ({})",
                                *best.loss.nats, *best.loss.nats - least, best.loss.basis));
  return reasons;
}

}  // namespace

double least_loss(std::span<const MethodCost> costs) {
  double least = std::numeric_limits<double>::infinity();
  for (const MethodCost& cost : costs) {
    if (eligible(cost)) least = std::min(least, *cost.loss.nats);
  }
  return least;
}

std::optional<Recommendation> recommend(std::span<const MethodCost> costs, double tolerance,
                                        double least) {
  const MethodCost* best = nullptr;
  for (const MethodCost& cost : costs) {
    if (!eligible(cost) || *cost.loss.nats > least + tolerance) continue;
    const bool sooner = best == nullptr || cost.seconds * kSameTime < best->seconds;
    const bool thinner = best != nullptr && cost.seconds < best->seconds * kSameTime &&
                         cost.received_bytes < best->received_bytes;
    if (sooner || thinner) best = &cost;
  }
  if (best == nullptr) return std::nullopt;
  return Recommendation{static_cast<size_t>(best - costs.data()), reasons_for(costs, *best, least)};
}

}  // namespace thinwire::plan

#include "thinwire/hosts/loss_board.h"

#include <utility>

namespace thinwire::hosts {
namespace {

// Ends the name of a set that is evaluated with a worker's own weights, where these differ from the
// shared ones (train/worker_evaluation.cpp).
constexpr const char* kOwnWeights = "_own";

}  // namespace

LossBoard::LossBoard(std::set<std::string> sets) : sets_(std::move(sets)) {
  for (const std::string& set : std::set(sets_)) sets_.insert(set + kOwnWeights);
  sets_.insert(membership::Loss::kTraining);
}

void LossBoard::add(const membership::Loss& loss, int64_t newest) {
  const auto step = static_cast<int64_t>(loss.step);
  if (!sets_.contains(loss.set) || loss.step > static_cast<uint64_t>(newest)) return;
  const auto taken = taken_.find(loss.set);
  if (taken != taken_.end() && step <= taken->second) return;
  Sum& sum = sums_[{loss.set, step}];
  if (!sum.members.insert(loss.member).second) return;
  const auto weight = static_cast<double>(loss.tokens);
  sum.loss += weight * loss.mean;
  sum.weight += weight;
}

size_t LossBoard::reports(const std::string& set, int64_t step) const {
  const auto found = sums_.find({set, step});
  return found == sums_.end() ? 0 : found->second.members.size();
}

std::vector<LossBoard::Point> LossBoard::take(const std::string& set, int64_t last) {
  std::vector<Point> points;
  for (auto one = sums_.lower_bound({set, 0}); one != sums_.end();) {
    const auto& [name, step] = one->first;
    if (name != set || step > last) break;
    const Sum& sum = one->second;
    if (sum.weight > 0) points.push_back({set, step, sum.loss / sum.weight});
    taken_[set] = step;
    one = sums_.erase(one);
  }
  return points;
}

std::vector<LossBoard::Point> LossBoard::take_all(int64_t trained, int64_t evaluated) {
  std::vector<Point> all;
  for (const std::string& set : sets_) {
    const bool is_training = set == membership::Loss::kTraining;
    for (Point& point : take(set, is_training ? trained : evaluated)) {
      all.push_back(std::move(point));
    }
  }
  return all;
}

}  // namespace thinwire::hosts

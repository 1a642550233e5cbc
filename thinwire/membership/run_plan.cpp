#include "thinwire/membership/run_plan.h"

#include <algorithm>
#include <utility>

#include "thinwire/method/registry.h"
#include "thinwire/schedule/learning_rate.h"
#include "thinwire/schedule/rounds.h"

namespace thinwire::membership {
namespace {

class RecipePlan final : public RunPlan {
 public:
  RecipePlan(const config::Recipe& recipe, uint64_t overlap, OperationsOf operations)
      : recipe_(recipe),
        rounds_(method::rounds_of(recipe)),
        overlap_(overlap),
        operations_(std::move(operations)) {}

  uint64_t workers() const override { return static_cast<uint64_t>(recipe_.train.workers); }
  uint64_t batch() const override { return static_cast<uint64_t>(recipe_.train.batch); }
  uint64_t overlap() const override { return overlap_; }
  uint64_t rounds() const override { return static_cast<uint64_t>(rounds_.count()); }

  Opening round(uint64_t number) const override {
    const int64_t first = static_cast<int64_t>(number) * rounds_.every;
    const int64_t end = std::min(first + rounds_.every, rounds_.steps);
    Opening opening;
    opening.round = number;
    opening.first_step = static_cast<uint64_t>(first);
    opening.last = number + 1 == rounds();
    double sum = 0;
    for (int64_t step = first; step < end; ++step) {
      const double rate =
          schedule::learning_rate(recipe_.schedule, recipe_.optim.lr, rounds_.steps, step);
      sum += rate;
      opening.steps.push_back({static_cast<float>(rate), static_cast<float>(sum)});
    }
    opening.operations = operations_(number);
    return opening;
  }

 private:
  const config::Recipe& recipe_;
  const schedule::Rounds rounds_;
  const uint64_t overlap_;
  const OperationsOf operations_;
};

}  // namespace

std::unique_ptr<RunPlan> make_run_plan(const config::Recipe& recipe, uint64_t overlap,
                                       OperationsOf operations) {
  return std::make_unique<RecipePlan>(recipe, overlap, std::move(operations));
}

}  // namespace thinwire::membership

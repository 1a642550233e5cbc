#include "thinwire/train/round_source.h"

#include <span>

#include "thinwire/train/measured_speeds.h"
#include "thinwire/train/open_round.h"

namespace thinwire::train {
namespace {

class RecipeRounds final : public RoundSource {
 public:
  RecipeRounds(const config::Recipe& recipe, uint64_t run, transport::Communicator& communicator,
               PermitHold& permits)
      : recipe_(recipe),
        run_(run),
        members_(static_cast<int>(recipe.train.workers)),
        speeds_(recipe, communicator, permits) {}

  void restored(int64_t completed) override {
    speeds_.restored(completed, [this](int64_t step) { return at(step); });
  }

  Round at(int64_t step) const override {
    return open_round(recipe_, run_, members_, step, speeds_.speeds());
  }

  Plan plan() const override {
    const std::span<const float> speeds = speeds_.speeds();
    return [&recipe = recipe_, run = run_, members = members_,
            now = std::vector<float>(speeds.begin(), speeds.end())](int64_t step) {
      return open_round(recipe, run, members, step, now);
    };
  }

  void computed(const Round& round, uint64_t rows, double seconds) override {
    speeds_.computed(round, rows, seconds);
  }
  Result<bool> completed(const Round& round) override { return speeds_.collect(round); }
  std::vector<StateTensor> state() override { return speeds_.state(); }

 private:
  const config::Recipe& recipe_;
  const uint64_t run_;
  const int members_;
  MeasuredSpeeds speeds_;
};

}  // namespace

std::unique_ptr<RoundSource> recipe_rounds(const config::Recipe& recipe, uint64_t run,
                                           transport::Communicator& communicator,
                                           PermitHold& permits) {
  return std::make_unique<RecipeRounds>(recipe, run, communicator, permits);
}

}  // namespace thinwire::train

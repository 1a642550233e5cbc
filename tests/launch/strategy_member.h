// A member of a run without a model: a strategy fed with gradients that are a function of (step,
// member, place) and of the member's weights, so that hundreds of runs take seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/round.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/recipe.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::launch {

// What all members agree on: enough to begin with.
struct Snapshot {
  std::vector<float> weights;
  std::map<std::string, std::vector<float>> consensus;
  bool operator==(const Snapshot&) const = default;
};

class StrategyMember {
 public:
  using RoundAt = std::function<Round(int64_t step)>;

  // All that is passed by reference outlives it.
  StrategyMember(const config::Recipe& recipe, const tensor::Layout& layout,
                 std::unique_ptr<transport::Communicator> communicator);
  ~StrategyMember();
  StrategyMember(const StrategyMember&) = delete;
  StrategyMember& operator=(const StrategyMember&) = delete;

  // At the start of the run.
  void begin(const RoundAt& round_at);
  // Or after `completed` steps of it, with nothing of its own.
  void begin(const Snapshot& snapshot, int64_t completed, const RoundAt& round_at);
  // Throws Error with the failure's message. Whether the members synchronised.
  bool step(const Round& round);
  Snapshot snapshot();
  sync::Strategy& strategy() { return *strategy_; }
  transport::Communicator& communicator() { return *communicator_; }
  PermitHold& permits() { return permits_; }

 private:
  tensor::Arena& shared();
  void fill_gradients(int64_t step);
  void hand_over(const Round& round);

  std::unique_ptr<transport::Communicator> communicator_;
  const bool streams_;  // train.update = layer
  ThreadPool threads_{1};
  PermitHold permits_{nullptr, 1};
  tensor::Arena params_;
  const tensor::Layout gradient_layout_;  // as the optimizer takes them
  tensor::Arena gradients_;
  std::unique_ptr<sync::Strategy> strategy_;
};

// The next step of all, each on a thread of its own. Whether they synchronised.
bool step_all(std::span<const std::unique_ptr<StrategyMember>> members, const Round& round);

}  // namespace thinwire::launch

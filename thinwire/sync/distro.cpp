#include "thinwire/sync/distro.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/clock.h"
#include "thinwire/sync/distro_applier.h"
#include "thinwire/sync/distro_encoder.h"

namespace thinwire::sync {
namespace {

class Distro final : public Strategy {
 public:
  explicit Distro(const Worker& worker)
      : worker_(worker),
        options_(worker.recipe.section<method::DistroOptions>("distro")),
        tiles_(options_, worker.params.layout()),
        encoder_(options_, tiles_, worker.params.layout(), worker.threads),
        applier_(options_, worker.recipe.optim, tiles_, worker.params.layout(), worker.threads) {}

  Result<StepReport> after_step(const Round& round) override {
    StepReport report;
    report.gradient_norm = optim::global_norm(worker_.gradients.all(), worker_.threads);
    require_finite(report.gradient_norm, round, worker_.peers.self());
    const transport::Key key{round.run, round.epoch, round.number, 0};
    worker_.peers.start_exchange(
        key, encoder_.encode(worker_.gradients, gain(round, report.gradient_norm), id(round)));
    const Stopwatch waiting;
    worker_.slots.pause();
    const auto deliveries = worker_.peers.wait_exchange(key, worker_.recipe.sync.timeout_s);
    worker_.slots.resume();
    if (!deliveries) return tl::unexpected(deliveries.error());
    report.exchange_seconds = waiting.seconds();
    const auto applied = applier_.apply(*deliveries, round, worker_.params, worker_.gradients);
    if (!applied) return tl::unexpected(applied.error());
    return report;
  }

  std::vector<StateTensor> state() override {
    std::vector<StateTensor> state = {{"distro.momentum", encoder_.momentum(), Agreement::kLocal}};
    for (const optim::OptimizerState& part : applier_.state()) {
      state.push_back({part.name, part.values, Agreement::kConsensus});
    }
    return state;
  }

 private:
  // What the gradient is multiplied with: clipping, this worker's weight relative to an equal
  // share, and the learning rate unless an optimizer applies it to the aggregate.
  float gain(const Round& round, double norm) const {
    const auto self =
        std::find_if(round.roster.begin(), round.roster.end(),
                     [&](const RoundMember& member) { return member.id == worker_.peers.self(); });
    if (self == round.roster.end()) {
      throw Error(fmt::format("worker {} is not in the roster of round {}", worker_.peers.self(),
                              round.number));
    }
    double gain = optim::clip_scale(norm, worker_.recipe.optim.clip);
    gain *= static_cast<double>(self->weight) * round.size();
    if (options_.update != "adamw") gain *= round.learning_rate;
    return static_cast<float>(gain);
  }

  codec::PayloadId id(const Round& round) const {
    codec::PayloadId id;
    id.run = round.run;
    id.epoch = round.epoch;
    id.sender = static_cast<uint32_t>(worker_.peers.self());
    id.round = round.number;
    return id;
  }

  Worker worker_;
  const method::DistroOptions& options_;
  DistroTiles tiles_;
  DistroEncoder encoder_;
  DistroApplier applier_;
};

}  // namespace

std::unique_ptr<Strategy> make_distro(const Worker& worker) {
  return std::make_unique<Distro>(worker);
}

}  // namespace thinwire::sync

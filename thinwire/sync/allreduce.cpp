#include "thinwire/sync/allreduce.h"

#include "thinwire/base/clock.h"
#include "thinwire/base/simd.h"
#include "thinwire/codec/wire.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::sync {
namespace {

THINWIRE_CLONES void scale(float* values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

class AllReduce final : public Strategy {
 public:
  AllReduce(const Worker& worker, const method::AllReduceOptions& options)
      : worker_(worker),
        optimizer_(optim::make_optimizer(worker.spec.optim, worker.params.layout())),
        codec_(codec::wire_codec(options.wire)) {}

  Result<StepReport> after_step(const Round& round) override {
    StepReport report;
    if (round.size() > 1) {
      const auto seconds = average(round);
      if (!seconds) return tl::unexpected(seconds.error());
      report.exchange_seconds = *seconds;
    }
    const double norm = optim::global_norm(worker_.gradients.all(), worker_.threads);
    require_finite(norm, round, worker_.communicator.rank());
    if (!own(round).inactive()) report.gradient_norm = norm;
    const float clip = optim::clip_scale(norm, worker_.spec.clip);
    optimizer_->step(worker_.params, worker_.gradients, {round.number, round.learning_rate, clip},
                     worker_.threads);
    return report;
  }

  std::vector<StateTensor> state() override {
    std::vector<StateTensor> state;
    for (const optim::OptimizerState& part : optimizer_->state()) {
      state.emplace_back(part.name, part.values, part.agreement);
    }
    return state;
  }

 private:
  RoundMember own(const Round& round) const { return round.member(worker_.communicator.rank()); }

  // Replaces this worker's gradient by the mean over all; returns the seconds spent waiting.
  Result<double> average(const Round& round) {
    const std::span<float> gradients = worker_.gradients.all();
    const float weight = own(round).weight;
    worker_.threads.for_ranges(static_cast<int64_t>(gradients.size()), 1024,
                               [&](int64_t begin, int64_t end, int) {
                                 scale(gradients.data() + begin, end - begin, weight);
                               });
    const transport::Key key{round.run, round.epoch, round.number, 0};
    worker_.communicator.start_all_reduce(key, gradients, codec_, round.active());
    const Stopwatch waiting;
    worker_.permits.pause();
    const auto done = worker_.communicator.wait_all_reduce(key, gradients, worker_.spec.timeout_s);
    worker_.permits.resume();
    if (!done) return tl::unexpected(done.error());
    return waiting.seconds();
  }

  Worker worker_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  const WireCodec& codec_;
};

}  // namespace

std::unique_ptr<Strategy> make_allreduce(const Worker& worker,
                                         const method::AllReduceOptions& options) {
  return std::make_unique<AllReduce>(worker, options);
}

}  // namespace thinwire::sync

#include <optional>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/codec/wire.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"
#include "thinwire/methods/allreduce/gradient_average.h"
#include "thinwire/methods/allreduce/streamed_updates.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/sync/algorithm.h"
#include "thinwire/sync/member_sum.h"

namespace thinwire::sync {
namespace {

class AllReduce final : public Strategy {
 public:
  AllReduce(const WorkerParts& worker, const method::AllReduceOptions& options)
      : worker_(worker),
        shared_(worker.share_optimizer ? worker.share_optimizer(worker.spec.optim) : nullptr),
        optimizer_(shared_ ? nullptr
                           : optim::make_optimizer(worker.spec.optim, worker.params.layout())),
        clipping_(worker.spec.clip_by, worker.spec.clip, worker.params.layout().size()),
        codec_(codec::wire_codec(options.wire)),
        sum_(worker.spec.aggregate, worker.communicator),
        bases_(worker_, sum_, codec_),
        average_(worker_, sum_, codec_) {
    if (worker.spec.gradients == method::GradientStore::kStreamed) {
      streamed_.emplace(worker_, *optimizer_, clipping_, codec_, sum_, bases_);
    }
  }

  void restored(const Resumption&) override {
    if (shared_) shared_->spread();
  }
  tensor::GradientForm gradient_form(const Round& round, size_t tensor) override {
    return optimizer_->gradient_form(tensor, round.number);
  }
  void project_gradient(const Round& round, size_t tensor, std::span<const float> whole,
                        std::span<float> projected) override {
    const Stopwatch watch;
    require_finite(optim::global_norm(whole, worker_.threads), round, worker_.communicator.rank());
    optimizer_->project(tensor, round.number, whole, projected, worker_.threads,
                        bases_.average(round, tensor));
    backward_seconds_ += watch.seconds();
  }
  void take_gradient(const Round& round, size_t tensor, std::span<const float> gradient) override {
    streamed_->take(round, tensor, gradient);
  }
  void gradients_ready(const Round& round, int group) override {
    if (streamed_) return streamed_->end_group(round, group);
    const Stopwatch watch;
    average_.begin(round, group);
    backward_seconds_ += watch.seconds();
  }

  Result<StepReport> after_step(const Round& round) override {
    if (streamed_) return streamed_->finish(round);
    StepReport report;
    const auto waited = bases_.finish();
    if (!waited) return tl::unexpected(waited.error());
    report.exchange_seconds = report.backward_exchange_seconds = *waited;
    report.backward_update_seconds = std::exchange(backward_seconds_, 0) - *waited;
    const auto averaging = average_.finish(round);
    if (!averaging) return tl::unexpected(averaging.error());
    report.exchange_seconds += *averaging;
    if (!worker_.spec.optim.spec->takes_gradients) return report;
    clipping_.measure(worker_.gradients, worker_.threads);
    require_finite(clipping_.norm(), round, worker_.communicator.rank());
    if (!own(round).inactive()) report.gradient_norm = clipping_.norm();
    update(round);
    clipping_.end_step();
    return report;
  }

  std::vector<StateTensor> state() override {
    std::vector<StateTensor> state = shared_ ? shared_->state() : optimizer_->state();
    for (StateTensor& part : clipping_.state()) state.push_back(std::move(part));
    return state;
  }

  void collect_state() override {
    if (shared_) shared_->collect();
  }

  void reset() override {
    shared_ ? shared_->reset() : optimizer_->reset();
    clipping_.reset();
  }

 private:
  RoundMember own(const Round& round) const { return round.own(worker_.communicator.rank()); }

  void update(const Round& round) {
    const optim::OptimizerStep step = {round.number, round.learning_rate};
    const auto scale = [this](size_t tensor) { return clipping_.scale(tensor); };
    if (shared_) return shared_->step(worker_.params, worker_.gradients, step, scale);
    optimizer_->step(worker_.params, worker_.gradients, step, scale, worker_.threads);
  }

  WorkerParts worker_;
  std::unique_ptr<optim::SharedOptimizer> shared_;  // null: this worker steps alone
  std::unique_ptr<optim::Optimizer> optimizer_;     // null if it is shared
  Clipping clipping_;
  const WireCodec& codec_;
  MemberSum sum_;
  SharedBases bases_;
  GradientAverage average_;
  std::optional<StreamedUpdates> streamed_;
  double backward_seconds_ = 0;  // that projecting and beginning sums took of the backward pass
};

class GradientReader final : public ContributionReader {
 public:
  explicit GradientReader(const method::AllReduceOptions& options)
      : codec_(codec::wire_codec(options.wire)) {}

  Result<void> read(std::span<const uint8_t> payload, codec::PayloadId, uint32_t,
                    tensor::Arena& out) override {
    return codec_.decode(payload, out.all());
  }
  bool stateless() const override { return true; }
  void recompute(float weight, tensor::Arena& gradients) override {
    const std::span<float> values = gradients.all();
    for (float& value : values) value *= weight;
    Bytes coded(wire_bytes(codec_.type, values.size()));
    codec_.encode(values, coded);
    const auto done = codec_.decode(coded, values);
    if (!done) throw Error("a gradient cannot be encoded: " + done.error().message);
  }

 private:
  const WireCodec& codec_;
};

const method::AllReduceOptions& options_of(const config::Section& section) {
  return dynamic_cast<const method::AllReduceOptions&>(section);
}

}  // namespace

// All-reduce: the baseline for every comparison. In every step the gradients are averaged over the
// workers, weighted by rows, and every replica takes the same optimizer step with the same mean,
// either at once (gradient_average.h) or tensor by tensor during the backward pass
// (streamed_updates.h).
const Algorithm kAllReduce = {
    .name = "allreduce",
    .strategy = [](const WorkerParts& worker,
                   const config::Section& section) -> std::unique_ptr<Strategy> {
      return std::make_unique<AllReduce>(worker, options_of(section));
    },
    .payloads =
        [](const config::Section& section, const PayloadSource& source) {
          const WireType wire = options_of(section).wire;
          return codec::dense_reader(wire, source.lone_worker ? WireType::kF32 : wire, source.seed);
        },
    .sums_in =
        [](const config::Section& section) {
          const WireType wire = options_of(section).wire;
          return std::optional(SumFormats{wire, wire});
        },
    .contributions = [](const config::Section& section, const tensor::Layout&,
                        ThreadPool&) -> std::unique_ptr<ContributionReader> {
      return std::make_unique<GradientReader>(options_of(section));
    },
};

}  // namespace thinwire::sync

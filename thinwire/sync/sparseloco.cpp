#include "thinwire/sync/sparseloco.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/codec/wire.h"
#include "thinwire/schedule/fragments.h"
#include "thinwire/sync/cluster.h"
#include "thinwire/sync/diloco_fragments.h"
#include "thinwire/sync/diloco_outer_step.h"
#include "thinwire/sync/inner_training.h"
#include "thinwire/sync/sparseloco_codec.h"

namespace thinwire::sync {
namespace {

class SparseLoco final : public Strategy {
 public:
  SparseLoco(const Worker& worker, const method::SparseLocoOptions& options)
      : worker_(worker),
        outer_(options.outer_options()),
        cluster_(worker.spec.clusters, worker.communicator),
        inner_(worker, cluster_),
        shared_(worker.params.layout()),
        step_(outer_, codec::wire_codec(outer_.wire), shared_, worker.params, worker.threads),
        codec_(options, worker.params.layout(), worker.threads),
        whole_(diloco_fragments(worker.params.layout(), 0).front()),
        schedule_{worker.spec.steps, options.sync_every, 1} {}

  void restored(const Resumption& from) override { inner_.restored(from); }
  bool before_step(const Round& round) override {
    const bool begins = round.step > 0 && own(round).since == round.step;
    if (begins) forget();
    if (own(round).inactive()) return true;
    return inner_.before_step(round) || begins;
  }
  tensor::GradientForm gradient_form(const Round& round, size_t tensor) override {
    return inner_.gradient_form(round, tensor);
  }
  void project_gradient(const Round& round, size_t tensor, std::span<const float> whole,
                        std::span<float> projected) override {
    inner_.project_gradient(round, tensor, whole, projected);
  }
  void take_gradient(const Round& round, size_t tensor, std::span<const float> gradient) override {
    inner_.take_gradient(round, tensor, gradient);
  }
  void gradients_ready(const Round& round, int group) override {
    inner_.gradients_ready(round, group);
  }

  Result<StepReport> after_step(const Round& round) override {
    const bool inactive = own(round).inactive();
    Result<StepReport> report =
        inactive ? StepReport{.synchronised = false} : inner_.after_step(round);
    if (!report || !schedule_.sends(0, static_cast<int64_t>(round.step) + 1)) return report;
    const Bytes payload = inactive ? Bytes() : codec_.encode(shared_, worker_.params, id(round));
    // The params become the shared weights; until then their memory takes the mean.
    const std::span<float> mean = worker_.params.all();
    const auto waited = exchange(round, payload, mean);
    if (!waited) return tl::unexpected(waited.error());
    report->exchange_seconds += *waited;
    step_.apply(whole_, mean);
    step_.follow(whole_);
    report->synchronised = true;
    return report;
  }

  std::vector<StateTensor> state() override {
    std::vector<StateTensor> state = inner_.state();
    for (StateTensor& part : step_.state()) state.push_back(std::move(part));
    state.emplace_back("local.error", codec_.error(), Agreement::kLocal);
    return state;
  }

  std::vector<StateBytes> in_flight() override { return inner_.in_flight(); }
  tensor::Arena* shared() override { return &shared_; }

 private:
  RoundMember own(const Round& round) const { return round.member(worker_.communicator.rank()); }

  // A worker that becomes inactive comes back like a new one, and so does a joiner.
  void forget() {
    inner_.forget();
    std::ranges::fill(codec_.error(), 0.0f);
    const std::span<const float> weights = std::as_const(shared_).all();
    std::ranges::copy(weights, worker_.params.all().begin());
  }

  // The mean of all clusters' pseudo-gradients; returns the seconds spent waiting.
  Result<double> exchange(const Round& round, const Bytes& payload, std::span<float> mean) {
    const transport::Key key{round.run, round.epoch, round.step, 0};
    const double timeout = worker_.spec.timeout_s;
    double seconds = 0;
    const auto wait = [&](const auto& operation) {
      const Stopwatch waiting;
      worker_.permits.pause();
      auto result = operation();
      worker_.permits.resume();
      seconds += waiting.seconds();
      return result;
    };
    if (transport::Communicator* const across = cluster_.across()) {
      const transport::Contributors from = cluster_.contributors(round, round.step);
      across->start_all_gather(key, payload, from);
      const auto deliveries = wait([&] { return across->wait_all_gather(key, timeout); });
      if (!deliveries) return tl::unexpected(deliveries.error());
      const auto done =
          codec_.sum(*deliveries, weights(round, *deliveries, from.size()), id(round), mean);
      if (!done) return tl::unexpected(done.error());
      const bool left_out = std::ranges::find(*deliveries, across->rank(),
                                              &transport::Delivery::member) == deliveries->end();
      if (left_out && !payload.empty()) {
        const auto kept = codec_.put_back(payload, id(round));
        if (!kept) return tl::unexpected(kept.error());
      }
    }
    const auto done = wait([&] { return cluster_.spread(key, mean, timeout); });
    if (!done) return tl::unexpected(done.error());
    return seconds;
  }

  // Of what was committed; they add up to 1 where the commit leaves out some of the contributors,
  // too.
  std::vector<float> weights(const Round& round, std::span<const transport::Delivery> committed,
                             size_t contributors) const {
    std::vector<float> weights;
    double sum = 0;
    for (const transport::Delivery& delivery : committed) {
      weights.push_back(cluster_.weight(round, delivery.member));
      sum += weights.back();
    }
    if (committed.size() == contributors) return weights;
    for (float& weight : weights) weight = static_cast<float>(weight / sum);
    return weights;
  }

  codec::PayloadId id(const Round& round) {
    transport::Communicator* const across = cluster_.across();
    codec::PayloadId id;
    id.method = codec::PayloadMethod::kSparseLoco;
    id.run = round.run;
    id.epoch = round.epoch;
    id.sender = across == nullptr ? 0 : static_cast<uint32_t>(across->rank());
    id.round = round.step;
    return id;
  }

  Worker worker_;
  method::DilocoOptions outer_;
  Cluster cluster_;
  InnerTraining inner_;
  tensor::Arena shared_;
  OuterStep step_;
  SparseLocoCodec codec_;
  DilocoFragment whole_;
  schedule::FragmentSchedule schedule_;
};

}  // namespace

std::unique_ptr<Strategy> make_sparseloco(const Worker& worker,
                                          const method::SparseLocoOptions& options) {
  return std::make_unique<SparseLoco>(worker, options);
}

}  // namespace thinwire::sync

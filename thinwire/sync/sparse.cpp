#include "thinwire/sync/sparse.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/codec/wire.h"
#include "thinwire/schedule/fragments.h"
#include "thinwire/sync/cluster.h"
#include "thinwire/sync/diloco_fragments.h"
#include "thinwire/sync/diloco_outer_step.h"
#include "thinwire/sync/inner_training.h"
#include "thinwire/sync/sparse_codec.h"

namespace thinwire::sync {
namespace {

class Sparse final : public Strategy {
 public:
  Sparse(const Worker& worker, const method::SparseOptions& options)
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
    if (!own(round).inactive()) return inner_.before_step(round);
    if (own(round).since == round.step) forget();
    return true;
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
  const RoundMember& own(const Round& round) const {
    return round.roster[static_cast<size_t>(worker_.communicator.rank())];
  }

  // A worker that becomes inactive comes back as new.
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
      worker_.slots.pause();
      auto result = operation();
      worker_.slots.resume();
      seconds += waiting.seconds();
      return result;
    };
    if (transport::Communicator* const across = cluster_.across()) {
      across->start_all_gather(key, payload);
      auto deliveries = wait([&] { return across->wait_all_gather(key, timeout); });
      if (!deliveries) return tl::unexpected(deliveries.error());
      std::erase_if(*deliveries, [&](const transport::Delivery& delivery) {
        return cluster_.weight(round, delivery.member) == 0;
      });
      std::vector<float> weights;
      for (const transport::Delivery& delivery : *deliveries) {
        weights.push_back(cluster_.weight(round, delivery.member));
      }
      const auto done = codec_.sum(*deliveries, weights, id(round), mean);
      if (!done) return tl::unexpected(done.error());
    }
    const auto done = wait([&] { return cluster_.spread(key, mean, timeout); });
    if (!done) return tl::unexpected(done.error());
    return seconds;
  }

  codec::PayloadId id(const Round& round) {
    transport::Communicator* const across = cluster_.across();
    codec::PayloadId id;
    id.method = codec::PayloadMethod::kSparse;
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
  SparseCodec codec_;
  DilocoFragment whole_;
  schedule::FragmentSchedule schedule_;
};

}  // namespace

std::unique_ptr<Strategy> make_sparse(const Worker& worker, const method::SparseOptions& options) {
  return std::make_unique<Sparse>(worker, options);
}

}  // namespace thinwire::sync

#include "thinwire/sync/sparse.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/codec/wire.h"
#include "thinwire/sync/cluster.h"
#include "thinwire/sync/inner_training.h"
#include "thinwire/sync/outer_fragments.h"
#include "thinwire/sync/outer_step.h"
#include "thinwire/sync/sparse_offers.h"

namespace thinwire::sync {
namespace {

class Sparse final : public Strategy {
 public:
  explicit Sparse(const Worker& worker)
      : worker_(worker),
        options_(worker.recipe.section<method::SparseOptions>("sparse")),
        outer_(options_.outer_options()),
        cluster_(worker.recipe.sync, worker.communicator),
        inner_(worker, cluster_),
        shared_(worker.params.layout()),
        step_(outer_, codec::wire_codec(outer_.wire_type()), shared_, worker.params,
              worker.threads),
        offers_(options_, worker.params.layout(), worker.threads),
        whole_(outer_fragments(worker.params.layout(), 0).front()),
        schedule_(method::fragment_schedule(outer_, worker.recipe, 1)) {}

  void restored(const Resumption& from) override { inner_.restored(from); }
  bool before_step(const Round& round) override {
    if (!own(round).away()) return inner_.before_step(round);
    if (own(round).since == round.step) forget();
    return true;
  }
  void gradients_ready(const Round& round, int layer) override {
    inner_.gradients_ready(round, layer);
  }

  Result<StepReport> after_step(const Round& round) override {
    const bool away = own(round).away();
    Result<StepReport> report = away ? StepReport{.synchronised = false} : inner_.after_step(round);
    if (!report || !schedule_.sends(0, static_cast<int64_t>(round.step) + 1)) return report;
    // The gradients were used; their memory takes the mean.
    const std::span<float> mean = worker_.gradients.all();
    const Bytes payload = away ? Bytes() : offers_.offer(shared_, worker_.params, id(round));
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
    state.push_back({"local.error", offers_.error(), Agreement::kLocal});
    return state;
  }

  std::vector<StateBytes> travelling() override { return inner_.travelling(); }
  tensor::Arena* shared() override { return &shared_; }

 private:
  const RoundMember& own(const Round& round) const {
    return round.roster[static_cast<size_t>(worker_.communicator.rank())];
  }

  // Who goes away comes back as new.
  void forget() {
    inner_.forget();
    std::ranges::fill(offers_.error(), 0.0f);
    const std::span<const float> weights = std::as_const(shared_).all();
    std::ranges::copy(weights, worker_.params.all().begin());
  }

  // The mean of all clusters' offers; returns the seconds spent waiting.
  Result<double> exchange(const Round& round, const Bytes& payload, std::span<float> mean) {
    const transport::Key key{round.run, round.epoch, round.step, 0};
    const double timeout = worker_.recipe.sync.timeout_s;
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
      const auto done = offers_.add_up(*deliveries, weights, id(round), mean);
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
  const method::SparseOptions& options_;
  method::OuterOptions outer_;
  Cluster cluster_;
  InnerTraining inner_;
  tensor::Arena shared_;
  OuterStep step_;
  SparseOffers offers_;
  OuterFragment whole_;
  schedule::FragmentSchedule schedule_;
};

}  // namespace

std::unique_ptr<Strategy> make_sparse(const Worker& worker) {
  return std::make_unique<Sparse>(worker);
}

}  // namespace thinwire::sync

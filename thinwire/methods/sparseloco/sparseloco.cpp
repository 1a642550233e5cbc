#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/wire.h"
#include "thinwire/methods/diloco/diloco_outer_step.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/methods/sparseloco/sparseloco_codec.h"
#include "thinwire/methods/sparseloco/sparseloco_spec.h"
#include "thinwire/schedule/schedule.h"
#include "thinwire/sync/algorithm.h"
#include "thinwire/sync/local_update_strategy.h"

namespace thinwire::sync {
namespace {

// How the payloads of a round become one mean.
GatheredSums sums_of(const method::SparseLocoOptions& options,
                     std::span<const TensorSpec> tensors) {
  const codec::SparseSumForm form = {method::plan_chunks(tensors, options).plan,
                                     ValueFormat::kTwoBit,
                                     method::plan_chunks(tensors, options.of_sum()).plan,
                                     options.sums.values(), options.aggregate};
  return GatheredSums{form, true, [form](uint64_t payloads) {
                        return method::sparse_sum_bound(form.sent, form.kept, payloads,
                                                        form.values);
                      }};
}

class SparseLoco final : public LocalUpdateStrategy {
 public:
  SparseLoco(const WorkerParts& worker, const method::SparseLocoOptions& options)
      : LocalUpdateStrategy(worker),
        outer_(options.outer_options()),
        step_(outer_, codec::wire_codec(outer_.wire), shared_, worker.params, worker.threads),
        codec_(options, worker.spec.aggregate, worker.params.layout(), worker.threads),
        whole_(diloco_fragments(worker.params.layout(), {}).front()),
        schedule_{worker.spec.steps, options.sync_every, 1},
        sum_drops_(options.sums.k > 0) {
    if (options.sums.formed()) {
      mean_.emplace(sums_of(options, worker.params.layout().specs()), worker.threads);
    }
  }

  Result<StepReport> after_step(const Round& round) override {
    Result<StepReport> report = inner_step(round);
    if (!report || !schedule_.sends(0, static_cast<int64_t>(round.step) + 1)) return report;
    const bool inactive = own(round).inactive();
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
    std::vector<StateTensor> state = LocalUpdateStrategy::state();
    for (StateTensor& part : step_.state()) state.push_back(std::move(part));
    state.emplace_back("local.error", codec_.error(), Agreement::kLocal);
    return state;
  }

 private:
  void forget() override { std::ranges::fill(codec_.error(), 0.0f); }

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
      const auto gathered = wait(
          [&] { return across->wait_gathered(key, timeout, mean_ ? mean_->accepts() : nullptr); });
      if (!gathered) return tl::unexpected(gathered.error());
      auto done = add_up(round, *gathered, from.size(), mean);
      if (done) done = keep_left_out(round, payload, gathered->committed, *across);
      if (!done) return tl::unexpected(done.error());
    }
    const auto done = wait([&] { return cluster_.broadcast(key, mean, timeout); });
    if (!done) return tl::unexpected(done.error());
    return seconds;
  }

  Result<void> add_up(const Round& round, const transport::Gathered& gathered, size_t contributors,
                      std::span<float> mean) {
    if (!mean_) {
      return codec_.sum(gathered.committed, weights(round, gathered.committed, contributors),
                        id(round), mean);
    }
    auto done = mean_->take(gathered, id(round), shares(round, gathered.committed));
    if (done) codec_.expand(mean_->message(), mean_->shapes(), mean);
    return done;
  }

  // What a commit, or its mean, leaves out of the payload, to be sent later; not where it may count
  // later.
  Result<void> keep_left_out(const Round& round, const Bytes& payload,
                             std::span<const transport::Delivery> committed,
                             const transport::Communicator& across) {
    const bool included = std::ranges::any_of(committed, [&](const transport::Delivery& delivery) {
      return delivery.member == across.rank() && delivery.late_share == 0;
    });
    if (payload.empty()) return {};
    if (!included) {
      return across.counts_late() ? Result<void>() : codec_.add_back(payload, id(round));
    }
    if (!sum_drops_) return {};
    return codec_.add_back(payload, id(round),
                           [this](codec::SparseTiles& own) { return mean_->keep_left_out(own); });
  }

  // Of what was committed, in the batch of its own round.
  std::vector<float> shares(const Round& round,
                            std::span<const transport::Delivery> committed) const {
    std::vector<float> shares;
    for (const transport::Delivery& delivery : committed) {
      shares.push_back(delivery.late_share > 0 ? delivery.late_share
                                               : cluster_.weight(round, delivery.member));
    }
    return shares;
  }

  // The weights of what was committed; they add up to 1 where the commit leaves out some of the
  // contributors, or has late contributions, too.
  std::vector<float> weights(const Round& round, std::span<const transport::Delivery> committed,
                             size_t contributors) const {
    std::vector<float> weights = shares(round, committed);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const bool late = std::ranges::any_of(
        committed, [](const transport::Delivery& one) { return one.late_share > 0; });
    if (!late && committed.size() == contributors) return weights;
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

  method::DilocoOptions outer_;
  OuterStep step_;
  SparseLocoCodec codec_;
  DilocoFragment whole_;
  schedule::FragmentSchedule schedule_;
  const bool sum_drops_;  // entries of tiles from which it keeps the largest
  std::optional<GatheredMean> mean_;
};

class DeltaReader final : public ContributionReader {
 public:
  DeltaReader(const method::SparseLocoOptions& options, const tensor::Layout& layout,
              ThreadPool& threads)
      : codec_(options, {}, layout, threads) {}

  Result<void> read(std::span<const uint8_t> payload, codec::PayloadId id, uint32_t,
                    tensor::Arena& out) override {
    constexpr float kWhole[] = {1};
    id.method = codec::PayloadMethod::kSparseLoco;
    const transport::Delivery one{static_cast<int>(id.sender),
                                  std::make_shared<const Bytes>(payload.begin(), payload.end())};
    return codec_.sum({&one, 1}, kWhole, id, out.all());
  }

 private:
  SparseLocoCodec codec_;
};

const method::SparseLocoOptions& options_of(const config::Section& section) {
  return dynamic_cast<const method::SparseLocoOptions&>(section);
}

}  // namespace

const Algorithm kSparseLoco = {
    .name = "sparseloco",
    .strategy = [](const WorkerParts& worker,
                   const config::Section& section) -> std::unique_ptr<Strategy> {
      return std::make_unique<SparseLoco>(worker, options_of(section));
    },
    .payloads =
        [](const config::Section& section, const PayloadSource& source) {
          const method::ChunkPlan chunks =
              method::plan_chunks(source.layout.specs(), options_of(section));
          return codec::sparse_reader(codec::PayloadMethod::kSparseLoco, ValueFormat::kTwoBit,
                                      codec::shapes_of(chunks.plan), source.seed);
        },
    .gathered_sums = [](const config::Section& section,
                        const auto& exchanged) -> std::optional<GatheredSums> {
      const method::SparseLocoOptions& options = options_of(section);
      if (!options.sums.formed()) return std::nullopt;
      return sums_of(options, exchanged());
    },
    .contributions = [](const config::Section& section, const tensor::Layout& layout,
                        ThreadPool& threads) -> std::unique_ptr<ContributionReader> {
      return std::make_unique<DeltaReader>(options_of(section), layout, threads);
    },
};

}  // namespace thinwire::sync

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/methods/distro/distro_applier.h"
#include "thinwire/methods/distro/distro_encoder.h"
#include "thinwire/methods/distro/distro_look_ahead.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/methods/distro/distro_tiles.h"
#include "thinwire/methods/distro/tile_work.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/sync/algorithm.h"

namespace thinwire::sync {
namespace {

// A stateless client has no momentum: it compresses only the round's delta.
method::DistroOptions encoder_options(method::DistroOptions options) {
  if (options.stateless()) options.decay = 0;
  return options;
}

// How the payloads of a round become one mean.
GatheredSums sums_of(const method::DistroOptions& options, std::span<const TensorSpec> tensors) {
  const method::DistroOptions of_sum = options.of_sum();
  const codec::SparseSumForm form = {method::plan_tiles(tensors, options.tiles()), options.values,
                                     method::plan_tiles(tensors, of_sum.tiles()), of_sum.values,
                                     options.aggregate};
  return GatheredSums{form, false, [form](uint64_t payloads) {
                        return method::sparse_sum_bound(form.sent, form.kept, payloads,
                                                        form.values);
                      }};
}

// A round whose payloads have not been applied.
struct InFlight {
  Round round;
  Bytes payload;  // this worker's own; empty: it follows
};

class Distro final : public Strategy {
 public:
  Distro(const WorkerParts& worker, const method::DistroOptions& options)
      : worker_(worker),
        options_(encoder_options(options)),
        tiles_(options_, worker.gradients.layout()),
        encoder_(options_, tiles_, worker.threads),
        received_(options_.sums.formed() ? options_.of_sum() : options_),
        received_tiles_(received_, worker.gradients.layout()),
        applier_(received_, worker.spec.aggregate, worker.spec.optim, received_tiles_,
                 worker.params.layout(), worker.threads) {
    if (options_.sums.formed()) {
      mean_.emplace(sums_of(options_, worker.gradients.layout().specs()), worker.threads);
    }
    if (options_.stateless()) {
      stateless_.emplace(options_, worker.spec.optim, worker.params, worker.gradients,
                         worker.threads);
    }
    if (options_.look_ahead) {
      look_ahead_.emplace(options_, tiles_, worker.params.layout(), worker.threads);
    }
  }

  void restored(const Resumption& from) override {
    const auto every = static_cast<uint64_t>(options_.local_steps);
    const bool within_round = from.next_step % every != 0 && from.next_step != from.ended_at;
    if (stateless_) stateless_->restored(within_round);
    const uint64_t closed = from.next_step / every * every;
    const bool ended = closed <= from.ended_at || from.next_step == steps();
    if (options_.overlap == 0 || ended) return;
    const Round last = from.round_at(closed - 1);
    if (payload_.empty() && !own(last).inactive() && !from.from_snapshot) return;
    start(last, payload_);
  }

  bool before_step(const Round& round) override {
    if (round.step > 0 && own(round).since == round.step) forget();
    if (!look_ahead_ || own(round).inactive()) return false;
    look_ahead_->step(encoder_.momentum(), round.learning_rate, worker_.params);
    return true;
  }

  tensor::GradientForm gradient_form(const Round& round, size_t tensor) override {
    return applier_.gradient_form(tensor, round.number);
  }

  Result<StepReport> after_step(const Round& round) override {
    if (look_ahead_) look_ahead_->undo(worker_.params);
    StepReport report;
    report.synchronised = round.closes;
    if (!own(round).inactive()) {
      report.gradient_norm = norm_.of(worker_.gradients, worker_.threads);
      require_finite(report.gradient_norm, round, worker_.communicator.rank());
      const float clip = optim::clip_scale(report.gradient_norm, worker_.spec.clip);
      if (stateless_) stateless_->step(round, clip);
      if (round.closes) start(round, encode(round, clip));
    } else if (round.closes) {
      start(round, {});
    }
    if (!round.closes) return report;
    while (in_flight_.size() > static_cast<size_t>(round.last ? 0 : options_.overlap)) {
      const auto waited = receive(in_flight_.front());
      if (!waited) return tl::unexpected(waited.error());
      report.exchange_seconds += *waited;
      in_flight_.pop_front();
    }
    if (in_flight_.empty()) payload_.clear();
    if (stateless_) stateless_->share();
    return report;
  }

  std::vector<StateTensor> state() override {
    std::vector<StateTensor> state;
    if (!stateless_) state.emplace_back("distro.momentum", encoder_.momentum(), Agreement::kLocal);
    if (stateless_) {
      for (StateTensor& part : stateless_->state()) state.push_back(std::move(part));
    }
    for (StateTensor& part : applier_.state()) state.push_back(std::move(part));
    return state;
  }

  void reset() override {
    Strategy::reset();
    applier_.reset();
  }

  std::vector<StatePayload> in_flight() override {
    if (options_.overlap == 0) return {};
    return {{"payload", &payload_}};
  }

  tensor::Arena* shared() override { return stateless_ ? stateless_->shared() : nullptr; }

 private:
  uint64_t steps() const { return static_cast<uint64_t>(worker_.spec.steps); }

  RoundMember own(const Round& round) const { return round.own(worker_.communicator.rank()); }

  // A worker that joins, or that becomes inactive, has no state of its own.
  void forget() {
    std::ranges::fill(encoder_.momentum(), 0.0f);
    if (stateless_) stateless_->begin_round();
  }

  Bytes encode(const Round& round, float clip) {
    const tensor::Arena& source = stateless_ ? stateless_->local_delta() : worker_.gradients;
    return encoder_.encode(source, gain(round, clip), id(round));
  }

  // With no payload the worker follows.
  void start(const Round& round, const Bytes& payload) {
    in_flight_.push_back({round, payload});
    if (options_.overlap > 0) payload_ = payload;
    worker_.communicator.start_all_gather(key(round), payload, round.active());
  }

  // Applies the payloads of a round as that round's step; returns the seconds spent waiting.
  Result<double> receive(const InFlight& sent) {
    const Round& round = sent.round;
    const Stopwatch waiting;
    worker_.permits.pause();
    const auto gathered = worker_.communicator.wait_gathered(key(round), worker_.spec.timeout_s,
                                                             mean_ ? mean_->accepts() : nullptr);
    worker_.permits.resume();
    const double seconds = waiting.seconds();
    if (!gathered) return tl::unexpected(gathered.error());
    auto done = apply(round, *gathered);
    if (done) done = add_back_left_out(sent, gathered->committed);
    if (!done) return tl::unexpected(done.error());
    forget_redrawn(round);
    return seconds;
  }

  Result<void> apply(const Round& round, const transport::Gathered& gathered) {
    Round applied = round;
    applied.learning_rate = round.round_rate;
    if (!mean_) {
      return applier_.apply(gathered.committed, applied, worker_.params, worker_.gradients);
    }
    // The members' weights are in what they send (gain).
    const std::vector<float> weights(gathered.committed.size(), 1.0f);
    auto done = mean_->take(gathered, id(round), weights);
    if (done) applier_.apply(mean_->message(), applied, worker_.params, worker_.gradients);
    return done;
  }

  // What the momentum holds of a tensor means nothing in other bases.
  void forget_redrawn(const Round& round) {
    for (size_t tensor = 0; tensor < worker_.params.layout().size(); ++tensor) {
      if (applier_.redrawn(tensor, round.number)) encoder_.forget(tensor);
    }
  }

  // What a commit, or its mean, leaves out stays in the momentum, to be sent later; a stateless
  // client has none.
  Result<void> add_back_left_out(const InFlight& sent,
                                 std::span<const transport::Delivery> committed) {
    if (stateless_ || sent.payload.empty()) return {};
    const int self = worker_.communicator.rank();
    const bool included =
        std::ranges::find(committed, self, &transport::Delivery::member) != committed.end();
    if (!included) return encoder_.add_back(sent.payload, id(sent.round));
    if (options_.sums.k == 0) return {};  // the mean has all that was sent
    return encoder_.add_back(sent.payload, id(sent.round),
                             [this](codec::SparseTiles& own) { return mean_->keep_left_out(own); });
  }

  // The factor for the gradient or the local delta: this worker's weight relative to an equal share
  // of the active ones, and the clipping and learning rate that go into the momentum.
  float gain(const Round& round, float clip) const {
    const double share =
        static_cast<double>(own(round).weight) * static_cast<double>(round.active().size());
    const bool with_rate = options_.update != method::DistroUpdate::kAdamW;
    if (!stateless_) {
      return static_cast<float>(clip * share * (with_rate ? round.learning_rate : 1.0));
    }
    // The delta points downhill and includes the rate; at a rate of zero there is no delta.
    if (with_rate || round.round_rate == 0) return static_cast<float>(-share);
    return static_cast<float>(-share / round.round_rate);
  }

  static transport::Key key(const Round& round) {
    return {round.run, round.epoch, round.number, 0};
  }

  codec::PayloadId id(const Round& round) const {
    codec::PayloadId id;
    id.run = round.run;
    id.epoch = round.epoch;
    id.sender = static_cast<uint32_t>(worker_.communicator.rank());
    id.round = round.number;
    return id;
  }

  WorkerParts worker_;
  method::DistroOptions options_;
  codec::DistroTiles tiles_;
  DistroEncoder encoder_;
  const method::DistroOptions received_;  // of what is applied: payloads, or their mean
  const codec::DistroTiles received_tiles_;
  DistroApplier applier_;
  std::optional<GatheredMean> mean_;
  std::optional<DistroStateless> stateless_;
  std::optional<DistroLookAhead> look_ahead_;
  optim::ArenaNorm norm_;
  std::deque<InFlight> in_flight_;  // oldest first
  Bytes payload_;                   // the newest one's, for checkpoints
};

class MomentumReader final : public ContributionReader {
 public:
  MomentumReader(const method::DistroOptions& options, const tensor::Layout& layout,
                 ThreadPool& threads)
      : tiles_(options, layout),
        message_(tiles_.shapes(), options.values),
        shrinks_(layout.size(), 1.0f),
        work_(codec::make_tile_work(options, tiles_, layout, threads)) {}

  Result<void> read(std::span<const uint8_t> payload, codec::PayloadId id, uint32_t,
                    tensor::Arena& out) override {
    id.method = codec::PayloadMethod::kDistro;
    const auto body = codec::open_payload(payload, id);
    if (!body) return tl::unexpected(body.error());
    auto done = message_.open(*body);
    if (done) done = message_.decode(0, message_.segments().size());
    if (done) work_->step({&message_, 1}, {tensor::TileUpdate::kStore, shrinks_, 0}, out);
    return done;
  }

 private:
  const codec::DistroTiles tiles_;
  codec::SparseMessage message_;
  const std::vector<float> shrinks_;
  const std::unique_ptr<codec::TileWork> work_;
};

const method::DistroOptions& options_of(const config::Section& section) {
  return dynamic_cast<const method::DistroOptions&>(section);
}

}  // namespace

// DisTrO: every worker sends the largest DCT coefficients of its own momentum, and all apply the
// mean of what was sent (thinwire/methods/distro/distro.md; DisTrO report, 2024; DeMo, arXiv
// 2411.19870). No gradient is summed over the workers and no optimizer state is synchronised. A
// round continues with the members whose payloads were committed.

// State: "distro.momentum" (local; coefficients, see distro_encoder.h) and, with update = "adamw",
// the optimizer's (consensus). A gradient that is not finite is an Error and changes nothing.
const Algorithm kDistro = {
    .name = "distro",
    .strategy = [](const WorkerParts& worker,
                   const config::Section& section) -> std::unique_ptr<Strategy> {
      return std::make_unique<Distro>(worker, options_of(section));
    },
    .payloads =
        [](const config::Section& section, const PayloadSource& source) {
          const method::DistroOptions& options = options_of(section);
          const method::TilePlan plan = method::plan_tiles(source.layout.specs(), options.tiles());
          return codec::sparse_reader(codec::PayloadMethod::kDistro, options.values,
                                      codec::shapes_of(plan), source.seed);
        },
    .gathered_sums = [](const config::Section& section,
                        const auto& exchanged) -> std::optional<GatheredSums> {
      const method::DistroOptions& options = options_of(section);
      if (!options.sums.formed()) return std::nullopt;
      return sums_of(options, exchanged());
    },
    .contributions = [](const config::Section& section, const tensor::Layout& layout,
                        ThreadPool& threads) -> std::unique_ptr<ContributionReader> {
      return std::make_unique<MomentumReader>(options_of(section), layout, threads);
    },
};

}  // namespace thinwire::sync

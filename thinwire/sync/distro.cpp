#include "thinwire/sync/distro.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "thinwire/base/clock.h"
#include "thinwire/method/optimizers.h"
#include "thinwire/sync/distro_applier.h"
#include "thinwire/sync/distro_encoder.h"
#include "thinwire/sync/distro_look_ahead.h"
#include "thinwire/sync/distro_stateless.h"

namespace thinwire::sync {
namespace {

// A stateless client has no momentum: it compresses only the round's delta.
method::DistroOptions encoder_options(method::DistroOptions options) {
  if (options.stateless()) options.decay = 0;
  return options;
}

class Distro final : public Strategy {
 public:
  Distro(const Worker& worker, const method::DistroOptions& options)
      : worker_(worker),
        options_(encoder_options(options)),
        tiles_(options_, worker.params.layout()),
        encoder_(options_, tiles_, worker.params.layout(), worker.threads),
        applier_(options_, worker.spec.optim, tiles_, worker.params.layout(), worker.threads) {
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
    if (payload_.empty()) return;
    in_flight_.push_back(from.round_at(from.next_step / every * every - 1));
    worker_.communicator.start_all_gather(key(in_flight_.front()), payload_);
  }

  bool before_step(const Round& round) override {
    if (!look_ahead_) return false;
    look_ahead_->step(encoder_.momentum(), round.learning_rate, worker_.params);
    return true;
  }

  Result<StepReport> after_step(const Round& round) override {
    if (look_ahead_) look_ahead_->undo(worker_.params);
    StepReport report;
    report.gradient_norm = optim::global_norm(worker_.gradients.all(), worker_.threads);
    require_finite(report.gradient_norm, round, worker_.communicator.rank());
    const float clip = optim::clip_scale(report.gradient_norm, worker_.spec.clip);
    if (stateless_) stateless_->step(round, clip);
    report.synchronised = round.closes;
    if (!round.closes) return report;

    send(round, clip);
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
      for (const optim::OptimizerState& part : stateless_->state()) {
        state.emplace_back(part.name, part.values, Agreement::kLocal);
      }
    }
    for (const optim::OptimizerState& part : applier_.state()) {
      state.emplace_back(part.name, part.values, part.agreement);
    }
    return state;
  }

  std::vector<StateBytes> in_flight() override {
    if (options_.overlap == 0) return {};
    return {{"payload", &payload_}};
  }

  tensor::Arena* shared() override { return stateless_ ? stateless_->shared() : nullptr; }

 private:
  void send(const Round& round, float clip) {
    const tensor::Arena& source = stateless_ ? stateless_->local_delta() : worker_.gradients;
    Bytes payload = encoder_.encode(source, gain(round, clip), id(round));
    if (options_.overlap > 0) payload_ = payload;
    worker_.communicator.start_all_gather(key(round), std::move(payload));
    in_flight_.push_back(round);
  }

  // Applies the payloads of a round as that round's step; returns the seconds spent waiting.
  Result<double> receive(const Round& round) {
    const Stopwatch waiting;
    worker_.permits.pause();
    const auto deliveries =
        worker_.communicator.wait_all_gather(key(round), worker_.spec.timeout_s);
    worker_.permits.resume();
    const double seconds = waiting.seconds();
    if (!deliveries) return tl::unexpected(deliveries.error());
    Round applied = round;
    applied.learning_rate = round.round_rate;
    const auto done = applier_.apply(*deliveries, applied, worker_.params, worker_.gradients);
    if (!done) return tl::unexpected(done.error());
    return seconds;
  }

  // The factor for the gradient or the local delta: this worker's weight relative to an equal
  // share, and the clipping and learning rate that go into the momentum.
  float gain(const Round& round, float clip) const {
    const auto self = std::find_if(
        round.roster.begin(), round.roster.end(),
        [&](const RoundMember& member) { return member.id == worker_.communicator.rank(); });
    if (self == round.roster.end()) {
      throw Error(fmt::format("worker {} is not in the roster of round {}",
                              worker_.communicator.rank(), round.number));
    }
    const double share = static_cast<double>(self->weight) * round.size();
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

  Worker worker_;
  method::DistroOptions options_;
  codec::DistroTiles tiles_;
  DistroEncoder encoder_;
  DistroApplier applier_;
  std::optional<DistroStateless> stateless_;
  std::optional<DistroLookAhead> look_ahead_;
  std::deque<Round> in_flight_;  // rounds whose payloads have not been applied
  Bytes payload_;                // this worker's payload in flight, for checkpoints
};

}  // namespace

std::unique_ptr<Strategy> make_distro(const Worker& worker, const method::DistroOptions& options) {
  return std::make_unique<Distro>(worker, options);
}

}  // namespace thinwire::sync

#include "thinwire/train/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/base/clock.h"

namespace thinwire::train {
namespace {

bool is_due(int64_t completed, int64_t every, int64_t steps) {
  return completed == steps || (every > 0 && completed % every == 0);
}

// Ends its source's waits when destroyed.
struct WaitsEnd {
  RoundSource& rounds;
  ~WaitsEnd() { rounds.stop_waiting(); }
};

}  // namespace

Worker::Worker(const RunContext& context, transport::Communicator& communicator)
    : context_(context),
      recipe_(context.replica.recipe),
      communicator_(communicator),
      replica_(context.replica, communicator),
      learner_(context.make_learner(replica_)),
      simulated_compute_(recipe_, replica_.params().layout(),
                         context.replica.machine.simulation.get(), communicator.rank()),
      written_(replica_.completed()),
      best_(context.replica.start.best) {
  replica_.start();
  learner_->refresh();
  if (replica_.merges()) learner_->refresh_frozen();
}

void Worker::read_from(int64_t step) {
  learner_->read_from(step,
                      [plan = replica_.rounds().plan(), self = communicator_.rank()](uint64_t one) {
                        return rows_of(plan(static_cast<int64_t>(one)), self);
                      });
}

double Worker::simulated_clock() const {
  const auto& simulation = context_.replica.machine.simulation;
  return simulation == nullptr ? 0 : simulation->clock(communicator_.rank());
}

WorkerEnd Worker::run() {
  WorkerEnd end = train();
  if (!replica_.compares()) end.digest = replica_.digest();
  return end;
}

// Weights are checkpointed before they are evaluated, so that nothing is lost if that takes long.
WorkerEnd Worker::train() {
  const int64_t steps = recipe_.train.steps;
  const bool evaluates = context_.replica.start.resume != nullptr &&
                         is_due(replica_.completed(), recipe_.eval.every, steps);
  if (evaluates && !evaluate(replica_.completed())) {
    return {replica_.completed(), false, best_};
  }
  const Decided before = decide(replica_.completed());
  if (before.ends || before.stopped) return {replica_.completed(), before.ends, best_};
  const WaitsEnd waits_end{replica_.rounds()};  // reading may wait for a round
  read_from(replica_.completed());
  for (int64_t step = replica_.completed(); step < steps; ++step) {
    const bool stops = context_.sink.stops_before(point_before_step(step));
    if (stops || context_.sink.checkpoint_due(step)) write_checkpoint(step);
    if (stops) return {step, false, best_};
    const int64_t completed = step + 1;
    try {
      if (train_step()) read_from(completed);
    } catch (const NotComputed&) {
      if (!may_stop_within_step()) throw;
      write_checkpoint(step);
      return {step, false, best_};
    }
    const bool evaluates_now = is_due(completed, recipe_.eval.every, steps);
    const bool may_be_best = recipe_.checkpoint.best && evaluates_now;
    if (may_be_best || is_due(completed, recipe_.checkpoint.every, steps)) {
      write_checkpoint(completed);
    }
    if (!evaluates_now) continue;
    Decided decided{.best = best_, .stopped = !evaluate(completed)};
    if (!decided.stopped) decided = decide(completed);
    if (decided.stopped || decided.ends) {
      write_checkpoint(completed);
      return {completed, decided.ends, best_};
    }
  }
  return {steps, true, best_};
}

bool Worker::may_stop_within_step() const {
  const bool alone =
      recipe_.train.workers == 1 || context_.replica.kind == method::RunKind::kHosted;
  return alone && !looks_ahead_;
}

void Worker::compute_gradients(const Round& round, uint64_t rows, StepPart& part) {
  const Stopwatch computing;
  looks_ahead_ = replica_.begin(round);
  if (looks_ahead_) learner_->refresh();
  simulated_compute_.begin(static_cast<int64_t>(rows));
  if (rows > 0) {
    learner_->gradients(
        round, [this](int group) { simulated_compute_.completed(group); }, part);
  }
  part.compute_s = computing.seconds();
  part.simulated_compute_s = simulated_compute_.end();
  if (!std::isfinite(part.loss_sum)) {
    throw Error(
        fmt::format("step {}: the loss is {} on worker {}; lower optim.lr or raise schedule.warmup",
                    round.step + 1, part.loss_sum, communicator_.rank()));
  }
  const bool simulated = context_.replica.machine.simulation != nullptr;
  replica_.rounds().computed(round, rows, simulated ? part.simulated_compute_s : part.compute_s);
}

bool Worker::train_step() {
  const Stopwatch reading;
  const uint64_t rows = learner_->read();
  StepPart part;
  part.data_s = reading.seconds();
  Round round = replica_.next_round();
  show_observer(round);
  const transport::TrafficCount before = communicator_.traffic();
  part.members = round.size();
  part.learning_rate = round.learning_rate;
  const double simulated_before = simulated_clock();
  compute_gradients(round, rows, part);
  const auto rate = static_cast<float>(part.learning_rate);  // the learner may have another one
  if (rate != round.learning_rate) round.learning_rate = round.round_rate = rate;

  const Stopwatch updating;
  const AppliedStep applied = replica_.apply(round);
  if (applied.merged) learner_->refresh_frozen();
  learner_->refresh();
  part.gradient_norm += applied.report.gradient_norm;  // one of them is 0
  part.exchange_s = applied.report.exchange_seconds;
  part.lost_sum = applied.report.lost_sum;
  part.synchronised = applied.report.synchronised;
  part.digest = applied.digest;
  part.state_digest = applied.state_digest;
  part.update_s = updating.seconds() + applied.report.backward_update_seconds -
                  (part.exchange_s - applied.report.backward_exchange_seconds);
  part.compute_s -=
      applied.report.backward_update_seconds + applied.report.backward_exchange_seconds;
  const transport::TrafficCount after = communicator_.traffic();
  part.simulated_s = simulated_clock() - simulated_before;
  part.bytes_sent = after.sent - before.sent;
  part.bytes_received = after.received - before.received;
  if (round.takes_part(communicator_.rank())) {
    context_.sink.add_step(replica_.completed(), communicator_.rank(), part);
  }
  return applied.new_rows;
}

void Worker::show_observer(const Round& round) {
  if (context_.observer == nullptr || !context_.observer->wants(round)) return;
  swap_shared();
  learner_->show(*context_.observer, round);
  swap_shared();
}

void Worker::swap_shared() {
  if (replica_.swap_shared()) learner_->refresh();
}

void Worker::write_checkpoint(int64_t completed) {
  if (std::exchange(written_, completed) == completed) return;
  replica_.require_finite_state();
  if (!replica_.last_round().takes_part(communicator_.rank())) return;
  context_.sink.add_checkpoint(completed, communicator_.rank(), replica_.state());
}

}  // namespace thinwire::train

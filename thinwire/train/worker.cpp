#include "thinwire/train/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/model/registry.h"

namespace thinwire::train {
namespace {

bool is_due(int64_t completed, int64_t every, int64_t steps) {
  return completed == steps || (every > 0 && completed % every == 0);
}

std::vector<uint64_t> rows_of(const Round& round, int member) {
  const RowRange range = round.own(member).rows;
  std::vector<uint64_t> rows(range.count);
  std::iota(rows.begin(), rows.end(), range.first);
  return rows;
}

// Which of this process's devices is meant: a site counts its own ranks.
int device_index(const RunContext& context, const transport::Communicator& communicator) {
  return context.replica.machine.site == nullptr ? communicator.rank() : 0;
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
      max_rows_(method::rows_per_pass(recipe_.train)),
      replica_(context.replica, communicator),
      model_(model::make_model(
          {method::ModelSpec(recipe_), model::parse_precision(recipe_.train.precision),
           context.layout, replica_.params(), replica_.threads(), max_rows_, recipe_.train.sequence,
           model::parse_device(recipe_.train.device, device_index(context, communicator)),
           replica_.frozen(), recipe_.adapter})),
      simulated_compute_(recipe_, context.layout, context.replica.machine.simulation.get(),
                         communicator.rank()),
      written_(replica_.completed()),
      best_(context.replica.start.best) {
  replica_.start();
  model_->refresh();
  if (replica_.merges()) model_->refresh_frozen();
}

data::Prefetcher::Order Worker::order() const {
  return [plan = replica_.rounds().plan(), self = communicator_.rank()](uint64_t step) {
    return rows_of(plan(static_cast<int64_t>(step)), self);
  };
}

double Worker::simulated_clock() const {
  const auto& simulation = context_.replica.machine.simulation;
  return simulation == nullptr ? 0 : simulation->clock(communicator_.rank());
}

// Weights are checkpointed before they are evaluated, so that nothing is lost if that takes long.
RunEnd Worker::run() {
  const int64_t steps = recipe_.train.steps;
  const bool evaluates = context_.replica.start.resume != nullptr &&
                         is_due(replica_.completed(), recipe_.eval.every, steps);
  if (evaluates && !evaluate(replica_.completed())) {
    return {replica_.completed(), false, best_};
  }
  if (exhausts_patience(replica_.completed())) return {replica_.completed(), true, best_};
  std::optional<data::Prefetcher> prefetcher;
  const WaitsEnd waits_end{
      replica_.rounds()};  // before the prefetcher, whose thread may wait for a round
  const auto prefetch_from = [&](int64_t step) {
    prefetcher.emplace(context_.data.rows, static_cast<uint64_t>(step), order());
  };
  prefetch_from(replica_.completed());
  for (int64_t step = replica_.completed(); step < steps; ++step) {
    const bool stops = context_.sink.stops_before(point_before_step(step));
    if (stops || context_.sink.checkpoint_due(step)) write_checkpoint(step);
    if (stops) return {step, false, best_};
    const Stopwatch reading;
    const data::Batch batch = prefetcher->take();
    const int64_t completed = step + 1;
    if (train_step(step, batch, reading.seconds())) prefetch_from(completed);
    const bool evaluates_now = is_due(completed, recipe_.eval.every, steps);
    const bool may_be_best = recipe_.checkpoint.best && evaluates_now;
    if (may_be_best || is_due(completed, recipe_.checkpoint.every, steps)) {
      write_checkpoint(completed);
    }
    const bool stopped = evaluates_now && !evaluate(completed);
    const bool exhausted = evaluates_now && !stopped && exhausts_patience(completed);
    if (stopped || exhausted) {
      write_checkpoint(completed);
      return {completed, exhausted, best_};
    }
  }
  return {steps, true, best_};
}

void Worker::compute_gradients(const Round& round, const data::Batch& batch, StepPart& part) {
  const Stopwatch computing;
  if (replica_.begin(round)) model_->refresh();
  simulated_compute_.begin(batch.rows);
  if (batch.rows > 0) {
    std::optional<PairLoss> pair_loss;
    if (context_.data.reference) {
      pair_loss.emplace(recipe_.preference,
                        context_.data.reference->of("train", context_.data.rows,
                                                    rows_of(round, communicator_.rank())));
    }
    part.loss_sum = replica_.gradients({batch.tokens,
                                        recipe_.train.sequence,
                                        max_rows_,
                                        {batch.weights, batch.begins},
                                        counted_a_row(context_.data.rows, round),
                                        pair_loss ? &*pair_loss : nullptr},
                                       *model_, round,
                                       [this](int group) { simulated_compute_.completed(group); });
    if (pair_loss) part.pairs = pair_loss->sums();
    part.uncounted = static_cast<int64_t>(std::ranges::count(batch.weights, 0.0F));
  }
  part.compute_s = computing.seconds();
  part.simulated_compute_s = simulated_compute_.end();
  if (!std::isfinite(part.loss_sum)) {
    throw Error(
        fmt::format("step {}: the loss is {} on worker {}; lower optim.lr or raise schedule.warmup",
                    round.step + 1, part.loss_sum, communicator_.rank()));
  }
  replica_.rounds().computed(
      round, batch.rows,
      context_.replica.machine.simulation == nullptr ? part.compute_s : part.simulated_compute_s);
}

bool Worker::train_step(int64_t step, const data::Batch& batch, double data_s) {
  const Round round = replica_.next_round();
  show_observer(round);
  const transport::TrafficCount before = communicator_.traffic();
  StepPart part;
  part.members = round.size();
  part.data_s = data_s;
  part.learning_rate = round.learning_rate;
  part.tokens = static_cast<int64_t>(batch.rows) * recipe_.train.sequence;
  const double simulated_before = simulated_clock();
  compute_gradients(round, batch, part);

  const Stopwatch updating;
  const AppliedStep applied = replica_.apply(round);
  if (applied.merged) model_->refresh_frozen();
  model_->refresh();
  part.gradient_norm = applied.report.gradient_norm;
  part.exchange_s = applied.report.exchange_seconds;
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
    context_.sink.add_step(step + 1, communicator_.rank(), part);
  }
  return applied.new_rows;
}

void Worker::show_observer(const Round& round) {
  if (context_.observer == nullptr || !context_.observer->wants(round)) return;
  swap_shared();
  context_.observer->observe(round, *model_);
  swap_shared();
}

void Worker::swap_shared() {
  if (replica_.swap_shared()) model_->refresh();
}

void Worker::write_checkpoint(int64_t completed) {
  if (std::exchange(written_, completed) == completed) return;
  replica_.require_finite_state();
  if (!replica_.last_round().takes_part(communicator_.rank())) return;
  context_.sink.add_checkpoint(completed, communicator_.rank(), replica_.state());
}

}  // namespace thinwire::train

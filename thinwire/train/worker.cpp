#include "thinwire/train/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/half.h"
#include "thinwire/base/offload.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/model/registry.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/train/gradients.h"
#include "thinwire/train/params_digest.h"

namespace thinwire::train {
namespace {

constexpr int64_t kWalked = 1 << 22;  // weights at a time that may be in files

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
  return context.site == nullptr ? communicator.rank() : 0;
}

// Ends its source's waits when destroyed.
struct WaitsEnd {
  RoundSource& rounds;
  ~WaitsEnd() { rounds.stop_waiting(); }
};

std::unique_ptr<Relora> make_relora(const RunContext& context, tensor::Arena& params) {
  if (!method::find_adapter(context.recipe.adapter.kind).merges) return nullptr;
  return std::make_unique<Relora>(context.recipe, context.initial.take_frozen(), params);
}

NamedValues view(const tensor::Arena& weights) {
  if (weights.format() == WeightFormat::kF32) return {"", weights.all()};
  return {"", DType::kBf16, weights.bytes()};
}

template <typename T>
std::span<const T> values_in(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

bool all_finite(std::span<const Bf16> values) {
  constexpr uint16_t kInfinity = 0x7f80;
  return std::ranges::none_of(values,
                              [](Bf16 value) { return (value.bits & kInfinity) == kInfinity; });
}

// Eight-bit codes are finite.
bool all_finite(const NamedValues& state, ThreadPool& threads) {
  constexpr size_t kPiece = size_t{1} << 24;  // bytes
  if (state.dtype != DType::kF32 && state.dtype != DType::kBf16) return true;
  const std::span<const uint8_t> bytes =
      state.dtype == DType::kF32 ? as_bytes(state.values) : state.bytes;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    const bool finite = state.dtype == DType::kF32
                            ? std::isfinite(optim::global_norm(values_in<float>(piece), threads))
                            : all_finite(values_in<Bf16>(piece));
    if (!finite) return false;
    release_offloaded(piece.data(), piece.size());
  }
  return true;
}

}  // namespace

Worker::Worker(const RunContext& context, transport::Communicator& communicator)
    : context_(context),
      recipe_(context.recipe),
      communicator_(communicator),
      max_rows_(method::rows_per_pass(recipe_.train)),
      threads_(static_cast<int>(recipe_.train.threads)),
      permits_(&context.cores, threads_.size()),
      params_(context.initial.take()),
      relora_(make_relora(context, params_)),
      gradients_(recipe_, params_, context.site),
      model_(model::make_model(
          {method::ModelSpec(recipe_), model::parse_precision(recipe_.train.precision),
           context.layout, params_, threads_, max_rows_, recipe_.train.sequence,
           model::parse_device(recipe_.train.device, device_index(context, communicator)), frozen(),
           recipe_.adapter})),
      strategy_(sync::make_strategy({params_, gradients_.arena(), threads_, permits_, communicator_,
                                     method::sync_spec(recipe_, context.kind)})),
      simulated_compute_(recipe_, context.layout, context.simulation.get(), communicator.rank()),
      rounds_(context.make_rounds(recipe_, context.run_id, communicator_, permits_)),
      written_(context.first_step),
      best_(context.best) {
  restore();
}

// Sums in flight read the strategy's memory, which is about to be freed.
Worker::~Worker() { communicator_.leave(); }

const tensor::Arena* Worker::frozen() const {
  if (relora_) return &relora_->base();
  return context_.frozen == nullptr ? nullptr : &context_.frozen->values;
}

void Worker::restore() {
  sync::share_params(params_, *strategy_);
  if (context_.resume != nullptr) {
    const int own = context_.part.value_or(communicator_.rank());
    for (const StateTensor& part : all_state()) {
      if (part.agreement == sync::Agreement::kConsensus) {
        context_.resume->read_consensus(part);
      } else {
        context_.resume->read_worker(own, part);
      }
    }
    for (const sync::StateBytes& part : strategy_->in_flight()) {
      *part.bytes = context_.resume->read_worker_bytes(own, part.name);
    }
  }
  if (context_.consensus != nullptr) take_consensus();
  strategy_->restored(
      {.next_step = static_cast<uint64_t>(context_.first_step),
       .round_at = [this](uint64_t step) { return rounds_->at(static_cast<int64_t>(step)); },
       .ended_at = static_cast<uint64_t>(context_.ended_at),
       .from_snapshot = context_.consensus != nullptr});
  rounds_->restored(context_.first_step);
  model_->refresh();
  if (relora_) model_->refresh_frozen();
}

void Worker::take_consensus() {
  for (const StateTensor& part : all_state()) {
    if (part.agreement != sync::Agreement::kConsensus) continue;
    const auto found = context_.consensus->find(part.name);
    if (found == context_.consensus->end() || found->second.size() != part.values.size()) {
      throw Error(
          fmt::format("the snapshot has no state {} of {} values", part.name, part.values.size()));
    }
    std::ranges::copy(found->second, part.values.begin());
  }
}

Round Worker::last_round(int64_t completed) const {
  return rounds_->at(std::max<int64_t>(completed - 1, 0));
}

data::Prefetcher::Order Worker::order() const {
  return [plan = rounds_->plan(), self = communicator_.rank()](uint64_t step) {
    return rows_of(plan(static_cast<int64_t>(step)), self);
  };
}

double Worker::simulated_clock() const {
  return context_.simulation == nullptr ? 0 : context_.simulation->clock(communicator_.rank());
}

// Weights are checkpointed before they are evaluated, so that nothing is lost if that takes long.
RunEnd Worker::run() {
  const int64_t steps = recipe_.train.steps;
  const bool evaluates =
      context_.resume != nullptr && is_due(context_.first_step, recipe_.eval.every, steps);
  if (evaluates && !evaluate(context_.first_step)) {
    return {context_.first_step, false, best_};
  }
  if (exhausts_patience(context_.first_step)) return {context_.first_step, true, best_};
  std::optional<data::Prefetcher> prefetcher;
  const WaitsEnd waits_end{*rounds_};  // before the prefetcher, whose thread may wait for a round
  const auto prefetch_from = [&](int64_t step) {
    prefetcher.emplace(context_.rows, static_cast<uint64_t>(step), order());
  };
  prefetch_from(context_.first_step);
  for (int64_t step = context_.first_step; step < steps; ++step) {
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
  if (strategy_->before_step(round)) model_->refresh();
  simulated_compute_.begin(batch.rows);
  if (batch.rows > 0) {
    std::optional<PairLoss> pair_loss;
    if (context_.reference) {
      pair_loss.emplace(
          recipe_.preference,
          context_.reference->of("train", context_.rows, rows_of(round, communicator_.rank())));
    }
    part.loss_sum = gradients_.compute({batch.tokens,
                                        recipe_.train.sequence,
                                        max_rows_,
                                        {batch.weights, batch.begins},
                                        counted_a_row(context_.rows, round),
                                        pair_loss ? &*pair_loss : nullptr},
                                       *model_, *strategy_, round,
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
  rounds_->computed(round, batch.rows,
                    context_.simulation == nullptr ? part.compute_s : part.simulated_compute_s);
}

void Worker::throw_failure(int64_t step, const Failure& failure) const {
  if (failure.kind == FailureKind::kAborted) throw Aborted(failure.message);
  throw Error(fmt::format("step {}: worker {}: {}", step, communicator_.rank(), failure.message));
}

bool Worker::train_step(int64_t step, const data::Batch& batch, double data_s) {
  const Round round = rounds_->at(step);
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
  const Result<sync::StepReport> report = strategy_->after_step(round);
  if (!report) throw_failure(step + 1, report.error());
  const Result<bool> new_rows = rounds_->completed(round);
  if (!new_rows) throw_failure(step + 1, new_rows.error());
  const bool merged = relora_ && relora_->after_step(step + 1, strategy_->state(), threads_);
  if (merged) model_->refresh_frozen();
  model_->refresh();
  part.gradient_norm = report->gradient_norm;
  part.exchange_s = report->exchange_seconds;
  part.synchronised = report->synchronised;
  if (part.synchronised) part.digest = digest_.of(shared(), threads_);
  // If synchronisations are rare, digesting everything that replicas agree on costs little.
  if (part.synchronised && (merged || strategy_->shared() != nullptr)) {
    part.state_digest = consensus_digest();
  }
  part.update_s = updating.seconds() + report->backward_update_seconds -
                  (part.exchange_s - report->backward_exchange_seconds);
  part.compute_s -= report->backward_update_seconds + report->backward_exchange_seconds;
  const transport::TrafficCount after = communicator_.traffic();
  part.simulated_s = simulated_clock() - simulated_before;
  part.bytes_sent = after.sent - before.sent;
  part.bytes_received = after.received - before.received;
  if (round.takes_part(communicator_.rank())) {
    context_.sink.add_step(step + 1, communicator_.rank(), part);
  }
  return *new_rows;
}

bool Worker::leads(const Round& round) const {
  return round.roster.front().id == communicator_.rank();
}

void Worker::show_observer(const Round& round) {
  if (context_.observer == nullptr || !context_.observer->wants(round)) return;
  swap_shared();
  context_.observer->observe(round, *model_);
  swap_shared();
}

void Worker::swap_shared() {
  tensor::Arena* const shared = strategy_->shared();
  if (shared == nullptr) return;
  const std::span<float> own = params_.all(), others = shared->all();
  const int64_t total = params_.layout().total();
  for (int64_t at = 0; at < total; at += kWalked) {
    const int64_t count = std::min(kWalked, total - at);
    std::ranges::swap_ranges(own.subspan(at, count), others.subspan(at, count));
    params_.release(at, count);
    shared->release(at, count);
  }
  model_->refresh();
}

tensor::Arena& Worker::shared() {
  tensor::Arena* const shared = strategy_->shared();
  return shared == nullptr ? params_ : *shared;
}

std::vector<StateTensor> Worker::all_state() {
  std::vector<StateTensor> state = strategy_->state();
  for (StateTensor& part : rounds_->state()) state.push_back(std::move(part));
  if (relora_) {
    for (StateTensor& part : relora_->state()) state.push_back(std::move(part));
  }
  return state;
}

uint64_t Worker::consensus_digest() {
  std::vector<uint64_t> parts;
  for (const StateTensor& part : all_state()) {
    if (part.agreement == sync::Agreement::kConsensus) {
      parts.push_back(bytes_digest(part.bytes, threads_));
    }
  }
  return hash_bytes(as_bytes(std::span<const uint64_t>(parts)));
}

void Worker::require_finite_state(int64_t completed) {
  const auto require = [&](const std::string& name, const NamedValues& values) {
    if (all_finite(values, threads_)) return;
    throw Error(
        fmt::format("step {}: {} of worker {} is not finite; lower optim.lr or raise "
                    "schedule.warmup; earlier checkpoints are kept",
                    completed, name, communicator_.rank()));
  };
  require("a parameter", view(params_));
  if (strategy_->shared() != nullptr) require("a shared weight", view(shared()));
  for (const StateTensor& part : all_state()) require(part.name, part.view());
}

void Worker::write_checkpoint(int64_t completed) {
  if (std::exchange(written_, completed) == completed) return;
  require_finite_state(completed);
  if (!last_round(completed).takes_part(communicator_.rank())) return;
  context_.sink.add_checkpoint(completed, communicator_.rank(), state(completed));
}

checkpoint::WorkerState Worker::state(int64_t completed) {
  const Round round = last_round(completed);
  checkpoint::WorkerState state{&shared(), {}, {}, {}, round.size(), leads(round)};
  for (const StateTensor& part : all_state()) {
    const bool agreed = part.agreement == sync::Agreement::kConsensus;
    (agreed ? state.consensus : state.local).push_back(part.view());
  }
  for (const sync::StateBytes& part : strategy_->in_flight()) {
    state.in_flight.push_back({part.name, *part.bytes});
  }
  return state;
}

}  // namespace thinwire::train

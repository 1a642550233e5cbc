#include "thinwire/train/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/train/params_digest.h"
#include "thinwire/train/site.h"

namespace thinwire::train {
namespace {

constexpr int64_t kWalked = 1 << 22;  // weights at a time that may be in files

tensor::Arena take_params(const ReplicaParts& parts) {
  tensor::Arena initial = parts.start.initial.take();
  if (!parts.memory) return initial;
  tensor::Arena params(initial.layout(), parts.memory(initial.layout()));
  params.assign(initial);
  return params;
}

std::unique_ptr<Relora> make_relora(const ReplicaParts& parts, tensor::Arena& params) {
  if (!method::facts_of(parts.recipe.adapter).merges) return nullptr;
  return std::make_unique<Relora>(parts.recipe, parts.start.initial.take_frozen(), params);
}

}  // namespace

Replica::Replica(const ReplicaParts& parts, transport::Communicator& communicator)
    : parts_(parts),
      recipe_(parts.recipe),
      communicator_(communicator),
      threads_(static_cast<int>(recipe_.train.threads)),
      permits_(&parts.machine.cores, threads_.size()),
      params_(take_params(parts)),
      relora_(make_relora(parts, params_)),
      gradients_(recipe_, params_, parts.machine.site, parts.gradient_memory),
      rounds_(parts.make_rounds(recipe_, parts.run_id, communicator_, permits_)),
      completed_(parts.start.first_step) {}

void Replica::start() {
  strategy_ = sync::make_strategy({params_, gradients_.arena(), threads_, permits_, communicator_,
                                   method::sync_spec(recipe_, parts_.kind), share_optimizer()});
  restore();
  share_frozen();
}

// With the ranks of a site.
optim::ShareOptimizer Replica::share_optimizer() {
  Site* const site = parts_.machine.site;
  if (site == nullptr || !method::shares_steps(recipe_)) return {};
  return [this, site](const method::OptimizerOptions& options) {
    return site->share_optimizer(options, params_.layout(), threads_, offload_folder(recipe_));
  };
}

// Merging has changed the frozen weights.
void Replica::share_frozen() {
  Site* const site = parts_.machine.site;
  if (relora_ && site != nullptr) site->set_frozen(relora_->base());
}

// Sums in flight read the strategy's memory, which is about to be freed.
Replica::~Replica() {
  if (strategy_) communicator_.leave();
}

const tensor::Arena* Replica::frozen() const {
  if (relora_) return &relora_->base();
  return parts_.start.frozen == nullptr ? nullptr : &parts_.start.frozen->values;
}

void Replica::restore() {
  const RunStart& start = parts_.start;
  sync::share_params(params_, *strategy_);
  if (start.resume != nullptr) {
    const int own = start.part.value_or(id());
    for (const StateTensor& part : all_state()) {
      if (part.agreement == sync::Agreement::kConsensus) {
        start.resume->read_consensus(part);
      } else {
        start.resume->read_worker(own, part);
      }
    }
    for (const sync::StatePayload& part : strategy_->in_flight()) {
      *part.bytes = start.resume->read_worker_bytes(own, part.name);
    }
  }
  if (start.snapshot != nullptr) take_snapshot();
  strategy_->restored(
      {.next_step = static_cast<uint64_t>(start.first_step),
       .round_at = [this](uint64_t step) { return rounds_->at(static_cast<int64_t>(step)); },
       .ended_at = static_cast<uint64_t>(start.ended_at),
       .from_snapshot = start.snapshot != nullptr});
  rounds_->restored(start.first_step);
}

void Replica::take_snapshot() {
  for (const StateTensor& part : all_state()) {
    if (part.agreement == sync::Agreement::kConsensus) parts_.start.snapshot->read_consensus(part);
  }
  const std::string name = not_finite();
  if (!name.empty()) throw Error(fmt::format("the snapshot: {} is not finite", name));
}

AppliedStep Replica::apply(const Round& round) {
  const Result<sync::StepReport> report = strategy_->after_step(round);
  if (!report) throw_failure(completed_ + 1, report.error());
  const Result<bool> new_rows = rounds_->completed(round);
  if (!new_rows) throw_failure(completed_ + 1, new_rows.error());
  ++completed_;
  AppliedStep applied{*report, *new_rows};
  applied.merged = relora_ && relora_->after_step(completed_, strategy_->state(), threads_);
  if (applied.merged) share_frozen();
  if (!report->synchronised || !compares()) return applied;
  applied.digest = digest();
  // If synchronisations are rare, digesting everything that replicas agree on costs little.
  if (applied.merged || strategy_->shared() != nullptr) applied.state_digest = consensus_digest();
  return applied;
}

void Replica::throw_failure(int64_t step, const Failure& failure) const {
  if (failure.kind == FailureKind::kAborted) throw Aborted(failure.message);
  throw Error(fmt::format("step {}: worker {}: {}", step, id(), failure.message));
}

bool Replica::swap_shared() {
  tensor::Arena* const shared = strategy_->shared();
  if (shared == nullptr) return false;
  const std::span<float> own = params_.all(), others = shared->all();
  const int64_t total = params_.layout().total();
  for (int64_t at = 0; at < total; at += kWalked) {
    const int64_t count = std::min(kWalked, total - at);
    std::ranges::swap_ranges(own.subspan(at, count), others.subspan(at, count));
    params_.release(at, count);
    shared->release(at, count);
  }
  return true;
}

tensor::Arena& Replica::shared() {
  tensor::Arena* const shared = strategy_->shared();
  return shared == nullptr ? params_ : *shared;
}

std::vector<StateTensor> Replica::all_state() {
  std::vector<StateTensor> state = strategy_->state();
  for (StateTensor& part : rounds_->state()) state.push_back(std::move(part));
  if (relora_) {
    for (StateTensor& part : relora_->state()) state.push_back(std::move(part));
  }
  return state;
}

uint64_t Replica::consensus_digest() {
  std::vector<uint64_t> parts;
  for (const StateTensor& part : all_state()) {
    if (part.agreement == sync::Agreement::kConsensus) {
      parts.push_back(bytes_digest(part.bytes, threads_));
    }
  }
  return hash_bytes(as_bytes(std::span<const uint64_t>(parts)));
}

std::string Replica::not_finite() {
  if (!all_finite(params_, threads_)) return "a parameter";
  if (strategy_->shared() != nullptr && !all_finite(shared(), threads_)) {
    return "a shared weight";
  }
  for (const StateTensor& part : all_state()) {
    if (!all_finite(part.view(), threads_)) return part.name;
  }
  return "";
}

void Replica::require_finite_state() {
  strategy_->collect_state();
  const std::string name = not_finite();
  if (name.empty()) return;
  throw Error(
      fmt::format("step {}: {} of worker {} is not finite; lower optim.lr or raise "
                  "schedule.warmup; earlier checkpoints are kept",
                  completed_, name, id()));
}

checkpoint::WorkerState Replica::state() {
  strategy_->collect_state();
  const Round round = last_round();
  checkpoint::WorkerState state{&shared(), {}, {}, {}, round.size(), leads(round)};
  for (const StateTensor& part : all_state()) {
    const bool agreed = part.agreement == sync::Agreement::kConsensus;
    (agreed ? state.consensus : state.local).push_back(part.view());
  }
  for (const sync::StatePayload& part : strategy_->in_flight()) {
    state.in_flight.push_back({part.name, *part.bytes});
  }
  return state;
}

}  // namespace thinwire::train

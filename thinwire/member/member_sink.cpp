#include "thinwire/member/member_sink.h"

#include <fmt/format.h>

#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/events/run_log.h"
#include "thinwire/member/place.h"
#include "thinwire/member/snapshot.h"
#include "thinwire/train/params_digest.h"
#include "thinwire/train/resolve.h"
#include "thinwire/train/worker.h"

namespace thinwire::member {

void MemberSink::add_step(int64_t step, int /*worker*/, const train::StepPart& part) {
  completed_ = step;
  if (part.lost_sum) {
    message_(
        fmt::format("step {}: the secure sum cannot be known, because only one member began it, or "
                    "more than half of them have gone; the weights stay as they were before the "
                    "round",
                    step));
  }
  if (part.synchronised) digest_ = part.digest;
  if (digest_) follower_.digest(step, *digest_);
  if (part.tokens == 0) return;  // it followed
  // Losses on a member's own text would tell of it without noise, and of it alone.
  if (!recipe_.privacy.hides_losses()) {
    follower_.trained(step, part.loss_sum, part.tokens - part.uncounted);
  }
  train::StepPart own = part;
  own.members = 1;
  collector_.add_step(step, kOnlyWorker, own);
}

void MemberSink::add_evaluation(int64_t step, const std::string& name, int /*worker*/,
                                const train::EvalPart& part) {
  const bool of_own_weights = name.ends_with(train::kOwnWeightsSuffix);
  if (!recipe_.privacy.hides_losses() || !of_own_weights) {
    follower_.evaluated(step, name, part.loss_sum, part.tokens);
  }
  if (part.tokens == 0) return;
  train::EvalPart own = part;
  own.members = 1;
  collector_.add_evaluation(step, name, kOnlyWorker, own);
}

void MemberSink::add_checkpoint(int64_t step, int /*worker*/,
                                const checkpoint::WorkerState& state) {
  if (follower_.wants_snapshot(step)) {
    auto snapshot = try_make_snapshot(run_, step, *state.params, state.consensus,
                                      folder_ / kSnapshotFolder, message_);
    if (snapshot) {
      follower_.store_snapshot(step, *std::move(snapshot));
    } else {
      follower_.decline_snapshot();
    }
  }
  if (!is_due(step) && !follower_.stopped()) return;
  // The last exchange may be long past, and this replica have followed it.
  if (step == last_ || recipe_.eval.patience > 0) {
    ThreadPool threads(1);
    written_ = {step, train::bytes_digest(state.params->bytes(), threads)};
  }
  if (step == last_) digest_ = written_->second;
  checkpoint::WorkerState own = state;
  own.members = 1;
  own.first = true;
  const auto place = follower_.place(step);
  const Bytes coded = place ? encode_place(*place) : Bytes();
  own.in_flight.push_back({kPlaceName, coded});
  const Bytes records = encode_records(follower_.last_records());
  own.in_flight.push_back({kRecordsName, records});
  checkpoints_.arrive(step, kOnlyWorker, own);
  collector_.checkpoint_written(step);
}

bool MemberSink::is_due(int64_t step) const {
  const auto divides = [step](int64_t every) { return every > 0 && step % every == 0; };
  return step == recipe_.train.steps || step == last_ || divides(recipe_.checkpoint.every) ||
         (recipe_.checkpoint.best && divides(recipe_.eval.every));
}

void MemberSink::decided(int64_t step, const train::Decided& decided) {
  const checkpoint::BestLoss& best = decided.best;
  if (decided.ends) {
    last_ = step;
    if (written_ && written_->first == step) digest_ = written_->second;
    if (step < recipe_.train.steps) {
      message_(train::why_early(recipe_, best));
    }
  }
  if (!recipe_.checkpoint.best || best.step < 0 || best.step == best_) return;
  const std::string name = checkpoint::checkpoint_name(static_cast<uint64_t>(best.step));
  if (!checkpoint::is_checkpoint(folder_ / "checkpoints" / name)) {
    fs::remove(folder_ / checkpoint::kBestLink);  // to one that is no longer the best
    return;
  }
  checkpoints_.keep_best(best.step);
  best_ = best.step;
}

bool MemberSink::stops_before(int64_t /*point*/) {
  if (const auto why = follower_.starts_over()) throw train::Aborted(*why);
  return follower_.stopped();
}

std::optional<OwnCheckpoint> open_own_checkpoint(
    const fs::path& checkpoints, const membership::Founding& founding, int64_t steps,
    const std::function<void(const std::string& text)>& notify) {
  const auto newest = checkpoint::newest_checkpoint(checkpoints);
  if (!newest) return std::nullopt;
  const auto ignore = [&](const std::string& why) {
    notify(fmt::format("does not continue from {}: {}", newest->string(), why));
    return std::nullopt;
  };
  try {
    auto reader = std::make_unique<checkpoint::CheckpointReader>(*newest);
    const checkpoint::CheckpointMeta& meta = reader->meta();
    if (meta.run != founding.run) {
      throw UsageError(fmt::format("{} is of another run than this one; choose another run.dir",
                                   newest->string()));
    }
    if (std::cmp_greater(meta.step, steps)) return ignore("it is of a longer run");
    if (meta.numerics_version != checkpoint::kNumericsVersion) {
      return ignore(fmt::format("it has numerics version {}, this program {}",
                                meta.numerics_version, checkpoint::kNumericsVersion));
    }
    const auto place = decode_place(reader->read_worker_bytes(MemberSink::kOnlyWorker, kPlaceName));
    if (!place) return std::nullopt;
    auto records =
        decode_records(reader->read_worker_bytes(MemberSink::kOnlyWorker, kRecordsName), founding);
    return OwnCheckpoint{std::move(reader), *place, std::move(records)};
  } catch (const UsageError&) {
    throw;
  } catch (const Error& damage) {
    return ignore(damage.what());
  }
}

std::set<std::string> evaluated_at(const fs::path& log, int64_t step) {
  std::set<std::string> names;
  if (!fs::exists(log)) return names;
  for (const events::EvalEvent& event : events::read_run_log(log).evals) {
    if (event.step == step) names.insert(event.name);
  }
  return names;
}

}  // namespace thinwire::member

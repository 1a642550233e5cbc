#include "thinwire/member/member_sink.h"

#include <utility>

#include "thinwire/member/place.h"
#include "thinwire/member/snapshot.h"
#include "thinwire/train/worker.h"

namespace thinwire::member {
void MemberSink::add_step(int64_t step, int /*worker*/, const train::StepPart& part) {
  completed_ = step;
  if (part.synchronised) digest_ = part.digest;
  if (digest_) follower_.digest(step, *digest_);
  if (part.tokens == 0) return;  // it followed
  follower_.trained(step, part.loss_sum, part.tokens - part.uncounted);
  train::StepPart own = part;
  own.members = 1;
  collector_.add_step(step, kOnlyWorker, own);
}

void MemberSink::add_evaluation(int64_t step, const std::string& name, int /*worker*/,
                                const train::EvalPart& part) {
  if (part.tokens == 0) return;
  follower_.evaluated(step, name, part.loss_sum, part.tokens);
  train::EvalPart own = part;
  own.members = 1;
  collector_.add_evaluation(step, name, kOnlyWorker, own);
}

void MemberSink::add_checkpoint(int64_t step, int /*worker*/,
                                const checkpoint::WorkerState& state) {
  if (follower_.wants_snapshot(step)) {
    const auto& weights = *state.params;
    follower_.store_snapshot(step, encode_snapshot(run_, step, weights.all(), state.consensus));
  }
  const int64_t every = recipe_.checkpoint.every;
  const bool due = step == recipe_.train.steps || (every > 0 && step % every == 0);
  if (!due && !follower_.stopped()) return;
  checkpoint::WorkerState own = state;
  own.members = 1;
  own.first = true;
  const auto place = follower_.place(step);
  const Bytes coded = place ? encode_place(*place) : Bytes();
  own.in_flight.push_back({kPlaceName, coded});
  checkpoints_.arrive(step, kOnlyWorker, own);
  collector_.restart_clock();
}

bool MemberSink::stops_before(int64_t /*point*/) {
  if (const auto why = follower_.starts_over()) throw train::Aborted(*why);
  return follower_.stopped();
}

}  // namespace thinwire::member

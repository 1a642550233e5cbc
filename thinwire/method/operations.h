// The collective operations of a run: which ones open after a training step, how large they may be
// and when their result is needed. Trainer, planner and coordinator all read them here, so none of
// them can expect an operation that another does not send.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

// How the members of a run are joined: as the workers of one job (threads, MPI ranks), or as hosts
// of their own over a courier (docs/hosts.md).
enum class RunKind : uint8_t { kJob, kHosted };

enum class Collective : uint8_t { kGather, kReduce };  // all_gather, all_reduce

// Who takes part in an operation: all members of the run, the members of each cluster among
// themselves, or the first members of the clusters (method/within.h).
enum class Group : uint8_t { kAll, kCluster, kLeaders };

// Fragment numbers of operations that are not the method's; the method's own count from 0.
inline constexpr uint32_t kSpeedsFragment = 0xffff'ffff;  // with sync.shares = "speed"
inline constexpr uint32_t kLossesFragment = 0xffff'fffe;  // with eval.patience
// With privacy.secure_sums (sync/private_sum.h), in the order of their turns, the sum between the
// last two.
inline constexpr uint32_t kMaskKeysFragment = 0xffff'fffd;
inline constexpr uint32_t kMaskSharesFragment = 0xffff'fffc;
inline constexpr uint32_t kRevealsFragment = 0xffff'fffb;
// Members beyond the first so many contribute nothing: shares are numbered by bytes.
inline constexpr uint64_t kMostSecureMembers = 255;
inline constexpr uint64_t kMaskKeysBytes = 2 * 32 + 32;    // two keys, a hash
inline constexpr uint64_t kMaskSharesBytes = 2 * 32 + 48;  // of one member: sealed shares
inline constexpr uint64_t kRevealBytes = 1 + 32;           // of one member
// Whether it is one of the method's own.
constexpr bool is_own_fragment(uint32_t fragment) { return fragment < kRevealsFragment; }

struct Operation {
  Collective collective = Collective::kGather;
  Group group = Group::kAll;
  // Together they identify it within its group. For each fragment, rounds ascend with time.
  uint64_t round = 0;
  uint32_t fragment = 0;
  // The largest payload of one member; of an all_reduce the encoded size of its whole buffer.
  uint64_t bytes = 0;
  // The result is awaited before this step; train.steps for the end of the run.
  int64_t due = 0;
  // Of the operations that open after the same step: it opens when the results of those with lower
  // turns are known.
  int turn = 0;
  bool operator==(const Operation&) const = default;
};

// The operations that open after a step (counted from 0), or during it where gradients are averaged
// while they are computed, and before the next step. Groups of one member have none.
using OperationsAfter = std::function<std::vector<Operation>(int64_t step)>;

// The operations of a run. `tensors` are the model's; they and the recipe must outlive what is
// returned.
OperationsAfter operations_of(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                              RunKind kind = RunKind::kJob);

// The learning rates of a run's steps, determined by its recipe and its adapter: a pure function,
// shared by all code that opens rounds (train/round_source.h, membership/run_plan.h).

// The learning rate of a training step, and the sum of its round's learning rates so far, including
// this step's, summed in double in the order of the steps. Their exact bits count (base/round.h).
struct StepRates {
  float learning_rate = 0;
  float round_rate = 0;
  bool operator==(const StepRates&) const = default;
};
StepRates step_rates(const config::Recipe& recipe, const schedule::Rounds& rounds, int64_t step);

}  // namespace thinwire::method

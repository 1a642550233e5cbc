// The collective operations of a run: which ones open after a training step, how large they may be
// and when their outcome is needed. Trainer, planner and coordinator read them here, so that none
// of them can expect what another does not send.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/tensor_view.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

enum class Collective : uint8_t { kGather, kReduce };  // all_gather, all_reduce

// Between whom an operation is: all members of the run, those of each cluster among themselves, or
// the clusters' first members (method/clusters.h).
enum class Group : uint8_t { kAll, kCluster, kLeaders };

// Names beside those of a method's own operations, whose fragments count from 0.
inline constexpr uint32_t kSpeedsFragment = 0xffff'ffff;  // with sync.shares = "speed"
inline constexpr uint32_t kLossesFragment = 0xffff'fffe;  // with eval.patience

struct Operation {
  Collective collective = Collective::kGather;
  Group group = Group::kAll;
  // Its name among the operations of its group, in ascending order of time a fragment.
  uint64_t round = 0;
  uint32_t fragment = 0;
  // An all_gather's largest payload of a member; of an all_reduce the coded size of the whole
  // buffer, which every member contributes and receives.
  uint64_t bytes = 0;
  // The step before which it is waited for, train.steps at the end of the run.
  int64_t due = 0;
  bool operator==(const Operation&) const = default;
};

// What opens after `step` (counted from 0) and before the next one. Groups of one member have no
// operations. `tensors` are the model's.
std::vector<Operation> operations_after(const config::Recipe& recipe,
                                        std::span<const TensorSpec> tensors, int64_t step);

}  // namespace thinwire::method

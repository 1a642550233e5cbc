// A worker's position in clusters (method/within.h): the members with which it trains the same
// weights, and sums over all clusters, for which only the first member of each cluster uses the
// slow link and then broadcasts the result to the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/round.h"
#include "thinwire/base/wire.h"
#include "thinwire/method/within.h"
#include "thinwire/sync/member_sum.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

class Cluster {
 public:
  // clusters: their number; 0: each worker is a cluster of its own. `communicator` must outlive it.
  // `aggregate`: how the contributions of all clusters become one.
  Cluster(int64_t clusters, const AggregateOptions& aggregate,
          transport::Communicator& communicator);

  // The communicator of this cluster's members; that of all members without clusters.
  transport::Communicator& inside() { return inside_ ? *inside_ : communicator_; }
  // The round of a training step, restricted to this cluster's members.
  Round inside(const Round& round) const;
  // The share of the round's rows of this cluster, or of a given one.
  float weight(const Round& round) const { return weight(round, own_); }
  float weight(const Round& round, int cluster) const;
  // The share of this cluster among the members that have been active since `step`; 0 if it has
  // none of them.
  float weight_since(const Round& round, uint64_t step) const {
    return weight_since(round, step, own_);
  }

  // The clusters with members that have been active since `step`, as ranks of across(), and their
  // shares.
  transport::Contributors contributors(const Round& round, uint64_t step) const;
  MemberShares shares(const Round& round, uint64_t step) const;

  // As in MemberSum, with one contribution per cluster: all its members make the same calls with
  // the same values. Keys of the inner strategy have fragment 0; these may have any.
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const MemberShares& shares, bool gathered = false);
  Result<bool> left_out(const transport::Key& key, double timeout_s);
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out, double timeout_s);
  void cancel(const transport::Key& key);

  // The communicator of the clusters' first workers, in which member i is cluster i; null for other
  // workers.
  transport::Communicator* across() { return across_; }
  // Copies the values of the cluster's first worker to all its workers.
  Result<void> broadcast(const transport::Key& key, std::span<float> values, double timeout_s);

 private:
  float weight_since(const Round& round, uint64_t step, int cluster) const;

  transport::Communicator& communicator_;
  method::Clusters clusters_;
  int own_ = 0;                                       // cluster
  std::unique_ptr<transport::Communicator> inside_;   // null: no clusters
  std::unique_ptr<transport::Communicator> leaders_;  // only on a leader
  transport::Communicator* across_ = nullptr;  // leaders_ or communicator_; null: not a leader
  std::optional<MemberSum> sum_;               // over across_
};

}  // namespace thinwire::sync

#include <cstring>
#include <numeric>
#include <utility>

#include "thinwire/sync/local_update_strategy.h"

namespace thinwire::sync {

Cluster::Cluster(int64_t clusters, const AggregateOptions& aggregate,
                 transport::Communicator& communicator)
    : communicator_(communicator),
      clusters_{communicator.size(),
                clusters == 0 ? communicator.size() : static_cast<int>(clusters)},
      own_(clusters_.of(communicator.rank())) {
  if (clusters == 0) {
    across_ = &communicator_;
    sum_.emplace(aggregate, *across_);
    return;
  }
  std::vector<int> members(static_cast<size_t>(clusters_.size(own_)));
  std::iota(members.begin(), members.end(), clusters_.first(own_));
  inside_ = communicator_.split(members);
  if (inside_->rank() != 0) return;
  std::vector<int> leaders;
  for (int cluster = 0; cluster < clusters_.count; ++cluster) {
    leaders.push_back(clusters_.first(cluster));
  }
  leaders_ = communicator_.split(leaders);
  across_ = leaders_.get();
  sum_.emplace(aggregate, *across_);
}

Round Cluster::inside(const Round& round) const {
  Round own = round;
  own.number = round.step;
  own.round_rate = round.learning_rate;
  own.closes = true;
  own.followed = false;
  own.roster.clear();
  const double all = weight(round);
  const int first = clusters_.first(own_);
  for (int i = 0; i < clusters_.size(own_); ++i) {
    RoundMember member = round.member(first + i);
    member.weight = static_cast<float>(member.weight / all);
    if (inside_) member.id = i;
    own.roster.push_back(member);
  }
  return own;
}

float Cluster::weight(const Round& round, int cluster) const {
  double sum = 0;
  for (int i = 0; i < clusters_.size(cluster); ++i) {
    sum += round.member(clusters_.first(cluster) + i).weight;
  }
  return static_cast<float>(sum);
}

float Cluster::weight_since(const Round& round, uint64_t step, int cluster) const {
  double all = 0;
  double own = 0;
  bool whole = true;
  for (const RoundMember& member : round.roster) {
    if (member.inactive()) continue;
    whole = whole && member.since <= step;
    if (member.since > step) continue;
    all += member.weight;
    if (clusters_.of(member.id) == cluster) own += member.weight;
  }
  if (whole) return weight(round, cluster);
  return own > 0 ? static_cast<float>(own / all) : 0;
}

transport::Contributors Cluster::contributors(const Round& round, uint64_t step) const {
  transport::Contributors clusters;
  for (const RoundMember& member : round.roster) {
    if (member.inactive() || member.since > step) continue;
    const int cluster = clusters_.of(member.id);
    if (clusters.empty() || clusters.back() != cluster) clusters.push_back(cluster);
  }
  return clusters;
}

MemberShares Cluster::shares(const Round& round, uint64_t step) const {
  MemberShares shares{contributors(round, step), {}};
  for (const int cluster : shares.from) {
    shares.weights.push_back(weight_since(round, step, cluster));
  }
  return shares;
}

void Cluster::start_all_reduce(const transport::Key& key, std::span<const float> values,
                               const WireCodec& codec, const MemberShares& shares, bool gathered) {
  if (sum_) sum_->start(key, values, codec, shares, gathered);
}

Result<bool> Cluster::left_out(const transport::Key& key, double timeout_s) {
  return sum_ ? sum_->left_out(key, timeout_s) : Result<bool>(false);
}

Result<void> Cluster::wait_all_reduce(const transport::Key& key, std::span<float> out,
                                      double timeout_s) {
  if (sum_) {
    auto done = sum_->wait(key, out, timeout_s);
    if (!done) return done;
  }
  return broadcast(key, out, timeout_s);
}

void Cluster::cancel(const transport::Key& key) {
  if (sum_) sum_->cancel(key);
}

Result<void> Cluster::broadcast(const transport::Key& key, std::span<float> values,
                                double timeout_s) {
  if (clusters_.size(own_) == 1) return {};
  const bool leads = across_ != nullptr;
  transport::Key inside = key;
  ++inside.fragment;
  Bytes payload(leads ? values.size_bytes() : 0);
  if (leads) std::memcpy(payload.data(), values.data(), payload.size());
  inside_->start_all_gather(inside, std::move(payload));
  const auto list = inside_->wait_all_gather(inside, timeout_s);
  if (!list) return tl::unexpected(list.error());
  const transport::Delivery& leader = list->front();
  if (leader.member != 0) return fail(FailureKind::kLostPeer, "the cluster's leader left the run");
  if (leader.payload->size() != values.size_bytes()) {
    return fail(FailureKind::kCorruptPayload, "the leader's sum has a different length");
  }
  std::memcpy(values.data(), leader.payload->data(), values.size_bytes());
  return {};
}

}  // namespace thinwire::sync

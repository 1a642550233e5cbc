#include "thinwire/member/committed_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/method/operations.h"
#include "thinwire/sync/committed_sum.h"

namespace thinwire::member {
void CommittedCommunicator::computed(uint64_t round, const membership::Spent& spent) {
  if (computed_round_ != round) spent_ = {};
  computed_round_ = round;
  spent_ += spent;
}

CommittedCommunicator::Operation& CommittedCommunicator::start(
    const transport::Key& key, const transport::Contributors& from) {
  const auto round = plan_.round_of_operation(key.round, key.fragment);
  if (!round) {
    throw Error(fmt::format("the run has no operation {} of fragment {}", key.round, key.fragment));
  }
  const bool is_listed = from.empty() || std::ranges::find(from, id_) != from.end();
  const bool contributes = is_listed && *round >= first_round_ && !replayed_.has(*round);
  started_.emplace(*round, key.fragment);
  return operations_[key] = {*round, contributes, from, nullptr};
}

void CommittedCommunicator::completed(uint64_t round) {
  for (; next_incomplete_ <= round; ++next_incomplete_) {
    const auto opening = follower_.reach(next_incomplete_);
    if (!opening) return;  // the replica has ended
    for (const membership::PlannedOperation& operation : opening->operations) {
      if (started_.contains({next_incomplete_, operation.fragment})) continue;
      transport::Key key;
      key.fragment = operation.fragment;
      Operation nothing;
      nothing.round = next_incomplete_;
      offer(key, nothing, {});
    }
  }
  started_.erase(started_.begin(), started_.lower_bound({next_incomplete_, 0}));
}

// Only members of the round's roster offer anything.
void CommittedCommunicator::offer(const transport::Key& key, const Operation& operation,
                                  Bytes payload) {
  const auto opening = follower_.reach(operation.round);
  if (!opening) return;  // waiting for the operation reports this
  if (std::ranges::find(opening->roster, id_, &membership::Share::member) ==
      opening->roster.end()) {
    return;
  }
  if (contributes_ && !payload.empty() && method::is_own_fragment(key.fragment)) contributes_();
  traffic_.sent += payload.size();
  const bool computed = computed_round_ == operation.round;
  follower_.offer(operation.round, key.fragment, std::move(payload),
                  computed ? spent_ : membership::Spent());
}

void CommittedCommunicator::start_all_gather(const transport::Key& key, Bytes payload,
                                             const transport::Contributors& from) {
  const Operation& operation = start(key, from);
  offer(key, operation, operation.contributes ? std::move(payload) : Bytes());
}

void CommittedCommunicator::start_all_reduce(const transport::Key& key,
                                             std::span<const float> values, const WireCodec& codec,
                                             const transport::Contributors& from) {
  Operation& operation = start(key, from);
  operation.codec = &codec;
  Bytes coded;
  if (operation.contributes) {
    coded.resize(wire_bytes(codec.type, values.size()));
    codec.encode(values, coded);
  }
  offer(key, operation, std::move(coded));
}

Result<Commit> CommittedCommunicator::commit(const transport::Key& key) {
  const auto operation = operations_.find(key);
  if (operation == operations_.end()) throw Error("an operation is awaited that was never started");
  completed(operation->second.round);  // it has started all of its operations in this round
  return follower_.commit(operation->second.round, key.fragment);
}

std::vector<transport::Delivery> CommittedCommunicator::listed(const Commit& commit) const {
  std::vector<transport::Delivery> deliveries;
  for (const Contribution& one : sync::summed(commit)) {
    const bool late = one.round != commit.operation.round;
    deliveries.push_back({one.member, nullptr, late ? membership::late_share(plan_, one) : 0});
  }
  return deliveries;
}

Result<std::vector<transport::Delivery>> CommittedCommunicator::fetch(const Commit& commit) {
  const auto payloads = follower_.payloads(commit);
  if (!payloads) return tl::unexpected(payloads.error());
  std::vector<transport::Delivery> deliveries = listed(commit);
  auto delivery = deliveries.begin();
  for (size_t i = 0; i < payloads->size(); ++i) {
    const Contribution& one = commit.contributions[i];
    if (one.bytes == 0) continue;
    if (one.member != id_) traffic_.received += one.bytes;
    (delivery++)->payload = (*payloads)[i];
  }
  return deliveries;
}

Result<std::vector<transport::Delivery>> CommittedCommunicator::wait_all_gather(
    const transport::Key& key, double timeout_s) {
  auto gathered = wait_gathered(key, timeout_s, {});
  if (!gathered) return tl::unexpected(gathered.error());
  return std::move(gathered->committed);
}

Result<transport::Gathered> CommittedCommunicator::wait_gathered(const transport::Key& key,
                                                                 double /*timeout_s*/,
                                                                 const AcceptsSum& accepts) {
  const auto commit = this->commit(key);
  operations_.erase(key);
  if (!commit) return tl::unexpected(commit.error());
  if (accepts) {
    auto sum = follower_.sum(*commit, 1);
    if (!sum) return tl::unexpected(sum.error());
    if (*sum != nullptr) {
      traffic_.received += (*sum)->size();
      if (accepts(**sum)) return transport::Gathered{listed(*commit), *std::move(sum)};
    }
  }
  auto deliveries = fetch(*commit);
  if (!deliveries) return tl::unexpected(deliveries.error());
  return transport::Gathered{*std::move(deliveries), nullptr};
}

// Where late contributions count, what is left out now may be part of a later sum.
Result<bool> CommittedCommunicator::left_out(const transport::Key& key, double /*timeout_s*/) {
  if (late_counts_) return false;
  const auto commit = this->commit(key);
  if (!commit) return tl::unexpected(commit.error());
  if (!operations_.at(key).contributes) return false;
  return std::ranges::none_of(commit->contributions, [&](const Contribution& one) {
    return one.member == id_ && one.bytes > 0 && one.round == commit->operation.round;
  });
}

Result<std::optional<transport::Contributors>> CommittedCommunicator::counted(
    const transport::Key& key, double /*timeout_s*/) {
  const auto commit = this->commit(key);
  if (!commit) return tl::unexpected(commit.error());
  transport::Contributors members;
  for (const Contribution& one : sync::summed(*commit)) members.push_back(one.member);
  return members;
}

Result<void> CommittedCommunicator::wait_all_reduce(const transport::Key& key, std::span<float> out,
                                                    double /*timeout_s*/) {
  const auto commit = this->commit(key);
  const Operation operation = operations_.at(key);
  operations_.erase(key);
  if (!commit) return tl::unexpected(commit.error());
  const auto opening = follower_.opening(operation.round);
  if (!opening) return tl::unexpected(opening.error());
  const float factor =
      operation.codec->add != nullptr
          ? 1  // words are not scaled
          : membership::mean_factor(plan_, *opening, operation.from, sync::summed(*commit));
  const auto sum = follower_.sum(*commit, factor);
  if (!sum) return tl::unexpected(sum.error());
  if (*sum != nullptr) {
    traffic_.received += (*sum)->size();
    const WireCodec& codec = operation.codec->of_sum();
    const bool fits = (*sum)->size() == wire_bytes(codec.type, out.size());
    if (fits && codec.decode(**sum, out)) return {};
  }
  const auto deliveries = fetch(*commit);
  if (!deliveries) return tl::unexpected(deliveries.error());
  return sync::sum_committed(*operation.codec, *deliveries, factor, out, memory_);
}

std::unique_ptr<transport::Communicator> CommittedCommunicator::split(std::span<const int>) {
  throw Error("members on many hosts cannot form groups");
}

}  // namespace thinwire::member

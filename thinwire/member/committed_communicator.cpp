#include "thinwire/member/committed_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace thinwire::member {
namespace {

// Values that are summed at a time, whole blocks of every format: a piece fits the L2 cache.
constexpr size_t kPieceValues = 16384;

using Deliveries = std::vector<transport::Delivery>;

// One piece of a sum: values [first, first + sum.size()) of the whole.
Result<void> sum_piece(const WireCodec& codec, const Deliveries& parts, size_t first,
                       std::span<float> sum, transport::CodedSum& memory) {
  const size_t begin = wire_bytes(codec.type, first);
  const size_t bytes = wire_bytes(codec.type, sum.size());
  transport::CodedSum::begin(sum);
  for (const transport::Delivery& part : parts) {
    auto added = memory.add_coded(codec, std::span(*part.payload).subspan(begin, bytes), sum);
    if (added) continue;
    added.error().message =
        fmt::format("the contribution of member {}: {}", part.member, added.error().message);
    return added;
  }
  return memory.finish(codec, sum);
}

}  // namespace

void CommittedCommunicator::computed(uint64_t round, double seconds) {
  if (computed_round_ != round) computed_s_ = 0;
  computed_round_ = round;
  computed_s_ += seconds;
}

CommittedCommunicator::Operation& CommittedCommunicator::start(
    const transport::Key& key, const transport::Contributors& from) {
  const auto round = plan_.round_of_operation(key.round, key.fragment);
  if (!round) {
    throw Error(fmt::format("the run has no operation {} of fragment {}", key.round, key.fragment));
  }
  const bool contributes = from.empty() || std::ranges::find(from, id_) != from.end();
  return operations_[key] = {*round, contributes, nullptr};
}

// Only members of the round's roster offer anything.
void CommittedCommunicator::offer(const transport::Key& key, const Operation& operation,
                                  Bytes payload) {
  const auto opening = follower_.opening(operation.round);
  if (!opening) return;  // the wait says so
  if (std::ranges::find(opening->roster, id_, &membership::Share::member) ==
      opening->roster.end()) {
    return;
  }
  traffic_.sent += payload.size();
  const double seconds = computed_round_ == operation.round ? computed_s_ : 0;
  follower_.offer(operation.round, key.fragment, std::move(payload), seconds);
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
  if (operation == operations_.end()) throw Error("an operation is waited for and was not started");
  return follower_.commit(operation->second.round, key.fragment);
}

Result<Deliveries> CommittedCommunicator::committed(const transport::Key& key) {
  const auto commit = this->commit(key);
  if (!commit) return tl::unexpected(commit.error());
  const auto payloads = follower_.payloads(*commit);
  if (!payloads) return tl::unexpected(payloads.error());
  Deliveries deliveries;
  for (size_t i = 0; i < payloads->size(); ++i) {
    const Contribution& one = commit->contributions[i];
    if (one.bytes == 0 || one.round != commit->operation.round) continue;
    if (one.member != id_) traffic_.received += one.bytes;
    deliveries.push_back({one.member, (*payloads)[i]});
  }
  return deliveries;
}

Result<Deliveries> CommittedCommunicator::wait_all_gather(const transport::Key& key,
                                                          double /*timeout_s*/) {
  auto deliveries = committed(key);
  operations_.erase(key);
  return deliveries;
}

Result<bool> CommittedCommunicator::left_out(const transport::Key& key, double /*timeout_s*/) {
  const auto commit = this->commit(key);
  if (!commit) return tl::unexpected(commit.error());
  if (!operations_.at(key).contributes) return false;
  return std::ranges::none_of(commit->contributions, [&](const Contribution& one) {
    return one.member == id_ && one.bytes > 0 && one.round == commit->operation.round;
  });
}

Result<void> CommittedCommunicator::wait_all_reduce(const transport::Key& key, std::span<float> out,
                                                    double /*timeout_s*/) {
  const auto parts = committed(key);
  const WireCodec& codec = *operations_.at(key).codec;
  operations_.erase(key);
  if (!parts) return tl::unexpected(parts.error());
  const uint64_t bytes = wire_bytes(codec.type, out.size());
  for (const transport::Delivery& part : *parts) {
    if (part.payload->size() == bytes) continue;
    return fail(FailureKind::kCorruptPayload,
                fmt::format("the contribution of member {} has {} bytes where {} are expected",
                            part.member, part.payload->size(), bytes));
  }
  for (size_t first = 0; first < out.size(); first += kPieceValues) {
    const auto piece = out.subspan(first, std::min(kPieceValues, out.size() - first));
    if (auto summed = sum_piece(codec, *parts, first, piece, memory_); !summed) return summed;
  }
  return {};
}

std::unique_ptr<transport::Communicator> CommittedCommunicator::split(std::span<const int>) {
  throw Error("members on many hosts cannot form groups");
}

}  // namespace thinwire::member

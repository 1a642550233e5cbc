#include "thinwire/transport/chunked_sum.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/simd.h"

namespace thinwire::transport {
namespace {

// Elementwise, so any width gives the same bits.
THINWIRE_CLONES void add_values(std::span<const float> values, std::span<float> sum) {
  const float* __restrict from = values.data();
  float* __restrict to = sum.data();
  const size_t count = sum.size();
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

void add(const WireCodec& codec, std::span<const float> values, std::span<float> sum) {
  codec.add == nullptr ? add_values(values, sum) : codec.add(values, sum);
}

}  // namespace

void CodedSum::begin(std::span<float> sum) { std::ranges::fill(sum, 0.0f); }

Result<void> CodedSum::add(const WireCodec& codec, std::span<const float> values,
                           std::span<float> sum) {
  if (codec.type == WireType::kF32) {
    transport::add(codec, values, sum);
    return {};
  }
  bytes_.resize(wire_bytes(codec.type, values.size()));
  codec.encode(values, bytes_);
  return add_coded(codec, bytes_, sum);
}

Result<void> CodedSum::add_coded(const WireCodec& codec, std::span<const uint8_t> coded,
                                 std::span<float> sum) {
  decoded_.resize(sum.size());
  if (auto done = codec.decode(coded, decoded_); !done) return done;
  transport::add(codec, decoded_, sum);
  return {};
}

Result<void> CodedSum::finish(const WireCodec& codec, std::span<float> sum) {
  const WireType type = codec.of_sum().type;
  if (type == WireType::kF32) return {};
  bytes_.resize(wire_bytes(type, sum.size()));
  return finish(codec, sum, bytes_);
}

Result<void> CodedSum::finish(const WireCodec& codec, std::span<float> sum,
                              std::span<uint8_t> coded) {
  codec.of_sum().encode(sum, coded);
  return codec.of_sum().decode(coded, sum);
}

namespace {

// Small enough for the L2 cache, and so that a member that leaves does not wait long.
constexpr size_t kPieceValues = 16384;

Result<void> check_length(size_t bytes, size_t expected) {
  if (bytes == expected) return {};
  return fail(FailureKind::kCorruptPayload,
              fmt::format("{} bytes where {} are expected", bytes, expected));
}

}  // namespace

Result<void> SumTask::run(CodedSum& memory) {
  if (kind == Kind::kCode) {
    codec->encode(parts.front().values, contribution);
    return {};
  }
  if (kind == Kind::kDecode) {
    const WireCodec& sums = codec->of_sum();
    auto right = check_length(parts.front().coded.size(), wire_bytes(sums.type, sum.size()));
    return right ? sums.decode(parts.front().coded, sum) : right;
  }
  const size_t bytes = wire_bytes(codec->type, sum.size());
  CodedSum::begin(sum);
  for (const Part& part : parts) {
    Result<void> added;
    if (part.elsewhere) added = check_length(part.coded.size(), bytes);
    if (added) {
      added = part.elsewhere ? memory.add_coded(*codec, part.coded, sum)
                             : memory.add(*codec, part.values, sum);
    }
    if (added) continue;
    added.error().message =
        fmt::format("the contribution of member {}: {}", part.member, added.error().message);
    return added;
  }
  return coded_sum.empty() ? memory.finish(*codec, sum) : CodedSum::finish(*codec, sum, coded_sum);
}

void ChunkedSum::open(std::span<const int> members, std::vector<int> here, const WireCodec& codec,
                      size_t count, bool alone) {
  members_.assign(members.begin(), members.end());
  here_ = std::move(here);
  codec_ = &codec;
  sum_.resize(count);
  for (const int owner : here_) {
    Chunk& chunk = chunks_[owner];
    chunk.range = range_of(owner);
    const size_t values = chunk.range.end - chunk.range.begin;
    chunk.pieces = std::max<size_t>(1, (values + kPieceValues - 1) / kPieceValues);
    if (!alone) chunk.coded.resize(wire_bytes(codec.of_sum().type, values));
  }
  for (const int owner : members_) {
    if (sums_.contains(owner) && !is_here(owner)) to_decode_.push_back(owner);
  }
}

void ChunkedSum::start(int member, std::span<const float> values, const WireCodec& codec) {
  if (codec_->formats() != codec.formats() || sum_.size() != values.size()) {
    throw Error(fmt::format("member {} contributes {} values as {} to a sum of {} as {}", member,
                            values.size(), wire_name(codec.type), sum_.size(),
                            wire_name(codec_->type)));
  }
  values_[member] = values;
  // From the next owner on, so that members that start together do not all begin with the same one.
  const auto count = members_.size();
  for (size_t i = 1; i < count; ++i) {
    const int owner = members_[(static_cast<size_t>(place(member)) + i) % count];
    if (!is_here(owner)) to_code_.emplace_back(member, owner);
  }
}

bool ChunkedSum::take_contribution(int owner, int from, Bytes coded) {
  return contributions_.emplace(std::pair(owner, from), std::move(coded)).second;
}

bool ChunkedSum::take_sum(int owner, Bytes coded) {
  if (!sums_.emplace(owner, std::move(coded)).second) return false;
  if (has(owner) && !is_here(owner)) to_decode_.push_back(owner);
  return true;
}

void ChunkedSum::fail(Failure failure) {
  if (!failure_) failure_ = std::move(failure);
}

bool ChunkedSum::has_task() const {
  if (!opened() || failure_) return false;
  if (!to_code_.empty() || !to_decode_.empty()) return true;
  const auto left = [](const auto& entry) { return entry.second.taken < entry.second.pieces; };
  return std::ranges::any_of(chunks_, left) && all_contributed();
}

std::optional<SumTask> ChunkedSum::take() {
  if (!has_task()) return std::nullopt;
  ++readers_;
  if (!to_code_.empty()) return encoding_task();
  if (!to_decode_.empty()) return decoding_task();
  const auto found = std::ranges::find_if(
      chunks_, [](const auto& entry) { return entry.second.taken < entry.second.pieces; });
  return forming_task(found->first, found->second);
}

bool ChunkedSum::finish(const SumTask& task, const Result<void>& result) {
  --readers_;
  if (!result) fail(result.error());
  if (!result || task.kind == SumTask::Kind::kCode) return false;
  if (task.kind == SumTask::Kind::kDecode) {
    ++decoded_;
    return false;
  }
  Chunk& chunk = chunks_.at(task.owner);
  return ++chunk.formed == chunk.pieces;
}

bool ChunkedSum::done() const {
  return opened() && !failure_ && decoded_ == members_.size() - here_.size() &&
         std::ranges::all_of(here_, [&](int owner) { return formed(owner); });
}

bool ChunkedSum::has(int member) const { return std::ranges::binary_search(members_, member); }

bool ChunkedSum::needs(int member) const {
  if (!has(member)) return false;
  return is_here(member) ? !done() : !sums_.contains(member);
}

std::vector<int> ChunkedSum::awaited() const {
  std::vector<int> silent;
  std::vector<int> unfinished;
  for (const int member : members_) {
    if (is_here(member)) {
      if (!values_.contains(member)) silent.push_back(member);
      continue;
    }
    const auto has_given = [&](int owner) { return contributions_.contains({owner, member}); };
    if (!std::ranges::all_of(here_, has_given)) silent.push_back(member);
    if (!sums_.contains(member)) unfinished.push_back(member);
  }
  return silent.empty() ? unfinished : silent;
}

bool ChunkedSum::formed(int owner) const {
  const auto found = chunks_.find(owner);
  return found != chunks_.end() && found->second.formed == found->second.pieces;
}

bool ChunkedSum::is_here(int member) const { return std::ranges::binary_search(here_, member); }

int ChunkedSum::place(int member) const {
  return static_cast<int>(std::ranges::lower_bound(members_, member) - members_.begin());
}

bool ChunkedSum::all_contributed() const {
  if (values_.size() < here_.size()) return false;
  return std::ranges::all_of(members_, [&](int from) {
    return is_here(from) || std::ranges::all_of(here_, [&](int owner) {
             return contributions_.contains({owner, from});
           });
  });
}

WireChunk ChunkedSum::range_of(int owner) const {
  return wire_chunk(codec_->type, sum_.size(), static_cast<int>(members_.size()), place(owner));
}

SumTask ChunkedSum::encoding_task() {
  const auto [member, owner] = to_code_.front();
  to_code_.pop_front();
  const WireChunk range = range_of(owner);
  const auto values = values_.at(member).subspan(range.begin, range.end - range.begin);
  Bytes contribution(wire_bytes(codec_->type, values.size()));
  return {SumTask::Kind::kCode,   owner, codec_, {{member, values, {}, false}}, {}, {},
          std::move(contribution)};
}

SumTask ChunkedSum::forming_task(int owner, Chunk& chunk) {
  const size_t first = chunk.taken++ * kPieceValues;
  const size_t begin = chunk.range.begin + first;
  const size_t count = std::min(kPieceValues, chunk.range.end - begin);
  const size_t first_byte = wire_bytes(codec_->type, first);
  const size_t bytes = wire_bytes(codec_->type, count);
  SumTask task{
      SumTask::Kind::kForm, owner, codec_, {}, std::span(sum_).subspan(begin, count), {}, {}};
  if (!chunk.coded.empty()) {
    const WireType type = codec_->of_sum().type;
    task.coded_sum =
        std::span(chunk.coded).subspan(wire_bytes(type, first), wire_bytes(type, count));
  }
  for (const int member : members_) {
    if (is_here(member)) {
      task.parts.push_back({member, values_.at(member).subspan(begin, count), {}, false});
      continue;
    }
    // The last piece takes everything left, so that contributions that are too long are refused,
    // too.
    const std::span<const uint8_t> all = contributions_.at({owner, member});
    const std::span<const uint8_t> left = all.subspan(std::min(first_byte, all.size()));
    const bool last = chunk.taken == chunk.pieces;
    task.parts.push_back(
        {member, {}, last ? left : left.first(std::min(bytes, left.size())), true});
  }
  return task;
}

SumTask ChunkedSum::decoding_task() {
  const int owner = to_decode_.front();
  to_decode_.pop_front();
  const WireChunk range = range_of(owner);
  return {SumTask::Kind::kDecode,
          owner,
          codec_,
          {{owner, {}, sums_.at(owner), true}},
          std::span(sum_).subspan(range.begin, range.end - range.begin),
          {},
          {}};
}

}  // namespace thinwire::transport

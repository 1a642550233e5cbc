#include "thinwire/member/committed_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "thinwire/membership/state.h"

namespace thinwire::member {
namespace {

// Values that are summed at a time, whole blocks of every format: a piece fits the L2 cache.
constexpr size_t kPieceValues = 16384;

using Deliveries = std::vector<transport::Delivery>;

// One piece of a sum: values [first, first + sum.size()) of the whole.
Result<void> sum_piece(const WireCodec& codec, const Deliveries& parts, float factor, size_t first,
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
  if (factor != 1) {
    for (float& value : sum) value *= factor;
  }
  return memory.finish(codec, sum);
}

}  // namespace

float mean_factor(const membership::Opening& opening, const transport::Contributors& from,
                  const Deliveries& listed) {
  uint64_t all = 0;
  uint64_t there = 0;
  for (const membership::Share& share : opening.roster) {
    const bool contributes = from.empty() || std::ranges::find(from, share.member) != from.end();
    if (!contributes) continue;
    all += share.rows.count;
    const bool is_listed =
        std::ranges::find(listed, share.member, &transport::Delivery::member) != listed.end();
    if (is_listed) there += share.rows.count;
  }
  if (there == 0 || there == all) return 1;
  return static_cast<float>(static_cast<double>(all) / static_cast<double>(there));
}

Result<void> sum_committed(const WireCodec& codec, const Deliveries& listed, float factor,
                           std::span<float> out, transport::CodedSum& memory) {
  const uint64_t bytes = wire_bytes(codec.type, out.size());
  for (const transport::Delivery& part : listed) {
    if (part.payload->size() == bytes) continue;
    return fail(FailureKind::kCorruptPayload,
                fmt::format("the contribution of member {} has {} bytes where {} are expected",
                            part.member, part.payload->size(), bytes));
  }
  for (size_t first = 0; first < out.size(); first += kPieceValues) {
    const auto piece = out.subspan(first, std::min(kPieceValues, out.size() - first));
    auto summed = sum_piece(codec, listed, factor, first, piece, memory);
    if (!summed) return summed;
  }
  return {};
}

}  // namespace thinwire::member

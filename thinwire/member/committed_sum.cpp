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

float mean_factor(const membership::RunPlan& plan, const membership::Opening& opening,
                  const transport::Contributors& from, const std::vector<Contribution>& listed) {
  uint64_t all = 0;
  for (const membership::Share& share : opening.roster) {
    const bool contributes = from.empty() || std::ranges::find(from, share.member) != from.end();
    if (contributes) all += weight_of(opening, share.member);
  }
  uint64_t there = 0;
  double late = 0;
  for (const Contribution& one : listed) {
    if (one.round == opening.round) {
      there += one.weight;
    } else {
      const uint64_t rows = plan.batch() * plan.round(one.round).steps.size();
      late += static_cast<double>(one.weight) / static_cast<double>(rows);
    }
  }
  const auto of = static_cast<double>(all);
  if (late > 0) return static_cast<float>(1 / (static_cast<double>(there) / of + late));
  return there == 0 || there == all ? 1 : static_cast<float>(of / static_cast<double>(there));
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

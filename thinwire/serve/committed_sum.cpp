#include "thinwire/serve/committed_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "thinwire/membership/state.h"
#include "thinwire/method/hosted.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/sync/algorithm.h"

namespace thinwire::serve {
namespace {

// Values that are summed at a time, whole blocks of every format: a piece fits the L2 cache.
constexpr size_t kPieceValues = 16384;

using Deliveries = std::vector<transport::Delivery>;

Result<void> check_length(const transport::Delivery& part, uint64_t bytes) {
  if (part.payload->size() == bytes) return {};
  return fail(FailureKind::kCorruptPayload,
              fmt::format("the contribution of member {} has {} bytes where {} are expected",
                          part.member, part.payload->size(), bytes));
}

// Adds values [first, first + sum.size()) of a contribution.
Result<void> add_piece(const WireCodec& codec, const transport::Delivery& part, size_t first,
                       std::span<float> sum, transport::CodedSum& memory) {
  const size_t begin = wire_bytes(codec.type, first);
  const size_t bytes = wire_bytes(codec.type, sum.size());
  auto added = memory.add_coded(codec, std::span(*part.payload).subspan(begin, bytes), sum);
  if (!added) {
    added.error().message =
        fmt::format("the contribution of member {}: {}", part.member, added.error().message);
  }
  return added;
}

void multiply(std::span<float> values, float factor) {
  if (factor == 1) return;
  for (float& value : values) value *= factor;
}

// One piece of a sum: values [first, first + sum.size()) of the whole.
Result<void> sum_piece(const WireCodec& codec, const Deliveries& parts, float factor, size_t first,
                       std::span<float> sum, transport::CodedSum& memory) {
  transport::CodedSum::begin(sum);
  for (const transport::Delivery& part : parts) {
    auto added = add_piece(codec, part, first, sum, memory);
    if (!added) return added;
  }
  multiply(sum, factor);
  return memory.finish(codec, sum);
}

// Calls piece(first, values) for one piece of `values` after another, until one fails.
template <typename Piece>
Result<void> for_pieces(std::span<float> values, const Piece& piece) {
  for (size_t first = 0; first < values.size(); first += kPieceValues) {
    auto done = piece(first, values.subspan(first, std::min(kPieceValues, values.size() - first)));
    if (!done) return done;
  }
  return {};
}

}  // namespace

bool SumRule::applies(const Commit& commit) const {
  const std::vector<Contribution> parts = summed(commit);
  return !parts.empty() &&
         method::coordinator_sums(who, parts.size(), static_cast<double>(parts.front().bytes));
}

std::optional<SumRule> sum_rule(const config::Recipe& recipe) {
  if (recipe.sync.sums == config::Sums::kMembers) return std::nullopt;
  if (recipe.sync.aggregation().robust()) return std::nullopt;  // members need every contribution
  const WireCodec* const codec = sync::sum_codec(method::sync_spec(recipe).method);
  if (codec == nullptr) return std::nullopt;
  return SumRule{recipe.sync.sums, codec};
}

std::vector<Contribution> summed(const Commit& commit) {
  std::vector<Contribution> parts = commit.contributions;
  std::erase_if(parts, [](const Contribution& one) { return one.bytes == 0; });
  return parts;
}

Sha256 digest_of(const std::vector<Contribution>& listed) {
  Bytes names;
  for (const Contribution& one : listed) {
    names.insert(names.end(), one.payload.bytes.begin(), one.payload.bytes.end());
  }
  return sha256(names);
}

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
    auto checked = check_length(part, bytes);
    if (!checked) return checked;
  }
  return for_pieces(out, [&](size_t first, std::span<float> piece) {
    return sum_piece(codec, listed, factor, first, piece, memory);
  });
}

RunningSum::RunningSum(const WireCodec& codec, uint64_t bytes)
    : codec_(codec), bytes_(bytes), sum_(wire_values(codec.type, bytes)) {}

Result<void> RunningSum::add(const transport::Delivery& contribution) {
  auto checked = check_length(contribution, bytes_);
  if (!checked) return checked;
  return for_pieces(sum_, [&](size_t first, std::span<float> piece) {
    return add_piece(codec_, contribution, first, piece, memory_);
  });
}

Result<Bytes> RunningSum::finish(float factor) {
  Bytes coded(bytes_);
  auto done = for_pieces(sum_, [&](size_t first, std::span<float> piece) {
    multiply(piece, factor);
    const size_t begin = wire_bytes(codec_.type, first);
    const size_t bytes = wire_bytes(codec_.type, piece.size());
    return transport::CodedSum::finish(codec_, piece, std::span(coded).subspan(begin, bytes));
  });
  if (!done) return tl::unexpected(done.error());
  return coded;
}

}  // namespace thinwire::serve

#include "thinwire/sync/committed_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "thinwire/base/payload_format.h"
#include "thinwire/base/threads.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/method.h"
#include "thinwire/method/operations.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/sync/algorithm.h"

namespace thinwire::sync {
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

void multiply(const WireCodec& codec, std::span<float> values, float factor) {
  if (factor == 1 || codec.add != nullptr) return;
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
  multiply(codec, sum, factor);
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

// A sum of gathered payloads, which have been checked.
class PayloadSum final : public RunningSum {
 public:
  explicit PayloadSum(std::shared_ptr<const GatheredSums> sums)
      : sums_(std::move(sums)), sum_(sums_->form, thread_) {
    sum_.begin();
  }

  Result<void> add(const transport::Delivery& contribution, float share) override {
    const std::span<const uint8_t> payload = *contribution.payload;
    if (payload.size() < kPayloadHeaderBytes) {
      return fail(FailureKind::kCorruptPayload, "a payload is shorter than its header");
    }
    return sum_.add(payload.subspan(kPayloadHeaderBytes), sums_->by_share ? share : 1.0f);
  }
  Result<Bytes> finish(float /*factor*/) override { return sum_.finish(); }

 private:
  const std::shared_ptr<const GatheredSums> sums_;
  ThreadPool thread_{1};
  codec::SparseSum sum_;
};

double mean_bytes(const std::vector<Contribution>& listed) {
  double bytes = 0;
  for (const Contribution& one : listed) bytes += static_cast<double>(one.bytes);
  return bytes / static_cast<double>(listed.size());
}

}  // namespace

bool SumRule::applies(const Commit& commit) const {
  if (!method::is_own_fragment(commit.operation.fragment)) return false;
  const std::vector<Contribution> parts = summed(commit);
  if (parts.empty()) return false;
  return method::coordinator_sums(who, parts.size(), mean_bytes(parts),
                                  static_cast<double>(bytes(parts)));
}

uint64_t SumRule::bytes(const std::vector<Contribution>& listed) const {
  return codec == nullptr ? gathered->bytes(listed.size())
                          : sum_bytes(*codec, listed.front().bytes);
}

WireType SumRule::format() const {
  return codec == nullptr ? WireType::kF32 : codec->of_sum().type;
}

bool SumRule::fits(uint64_t size, const std::vector<Contribution>& listed) const {
  return codec == nullptr ? size <= bytes(listed) : size == bytes(listed);
}

std::unique_ptr<RunningSum> SumRule::begin(const std::vector<Contribution>& listed) const {
  if (codec == nullptr) return std::make_unique<PayloadSum>(gathered);
  return std::make_unique<DenseSum>(*codec, listed.front().bytes);
}

std::optional<SumRule> sum_rule(const config::Recipe& recipe) {
  if (recipe.sync.sums == config::Sums::kMembers) return std::nullopt;
  if (recipe.sync.aggregation().robust()) return std::nullopt;  // members need every contribution
  const WireCodec* codec = sum_codec(method::sync_spec(recipe).method);
  if (recipe.privacy.secure_sums) codec = &codec::wire_codec(SumFormats{.words = true});
  if (codec != nullptr) return SumRule{recipe.sync.sums, codec};
  auto gathered = gathered_sums(recipe);
  if (!gathered) return std::nullopt;
  return SumRule{recipe.sync.sums, nullptr,
                 std::make_shared<const GatheredSums>(*std::move(gathered))};
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

uint64_t sum_bytes(const WireCodec& codec, uint64_t bytes) {
  return wire_bytes(codec.of_sum().type, wire_values(codec.type, bytes));
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

DenseSum::DenseSum(const WireCodec& codec, uint64_t bytes)
    : codec_(codec), bytes_(bytes), sum_(wire_values(codec.type, bytes)) {}

Result<void> DenseSum::add(const transport::Delivery& contribution, float /*share*/) {
  auto checked = check_length(contribution, bytes_);
  if (!checked) return checked;
  return for_pieces(sum_, [&](size_t first, std::span<float> piece) {
    return add_piece(codec_, contribution, first, piece, memory_);
  });
}

Result<Bytes> DenseSum::finish(float factor) {
  const WireType type = codec_.of_sum().type;
  Bytes coded(wire_bytes(type, sum_.size()));
  auto done = for_pieces(sum_, [&](size_t first, std::span<float> piece) {
    multiply(codec_, piece, factor);
    const size_t begin = wire_bytes(type, first);
    const size_t bytes = wire_bytes(type, piece.size());
    return transport::CodedSum::finish(codec_, piece, std::span(coded).subspan(begin, bytes));
  });
  if (!done) return tl::unexpected(done.error());
  return coded;
}

}  // namespace thinwire::sync

#include "thinwire/sync/member_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/codec/aggregation.h"

namespace thinwire::sync {
namespace {

// Values that are aggregated at a time, whole blocks of every format.
constexpr size_t kPieceValues = 16384;

// A contribution in its number format; its values are those of the member, without the weight.
class Contributed {
 public:
  Contributed(const transport::Delivery& delivery, const WireCodec& codec, float weight)
      : delivery_(delivery), codec_(codec), weight_(weight) {}

  // The magnitude of `count` values; a failure names the member.
  Result<codec::Magnitude> magnitude(size_t count, std::span<float> piece) const {
    const uint64_t bytes = wire_bytes(codec_.type, count);
    if (delivery_.payload->size() != bytes) {
      return refused(
          fmt::format("it has {} bytes where {} are expected", delivery_.payload->size(), bytes));
    }
    codec::Magnitude magnitude;
    for (size_t first = 0; first < count; first += piece.size()) {
      const auto values = piece.first(std::min(piece.size(), count - first));
      if (const auto done = read(first, values); !done) return refused(done.error().message);
      codec::measure(values, magnitude);
    }
    if (!magnitude.finite()) return refused("it has a value that is not finite");
    return magnitude;
  }

  Result<void> read(size_t first, std::span<float> values) const {
    auto done = read_sent(first, values);
    for (float& value : values) value /= weight_;
    return done;
  }
  // As sent, with the weight.
  Result<void> read_sent(size_t first, std::span<float> values) const {
    const auto coded =
        std::span(*delivery_.payload)
            .subspan(wire_bytes(codec_.type, first), wire_bytes(codec_.type, values.size()));
    return codec_.decode(coded, values);
  }

  float weight() const { return weight_; }

 private:
  tl::unexpected<Failure> refused(const std::string& what) const {
    return fail(FailureKind::kCorruptPayload,
                fmt::format("the contribution of member {}: {}", delivery_.member, what));
  }

  const transport::Delivery& delivery_;
  const WireCodec& codec_;
  float weight_;
};

// The committed contributions that count, and what is measured of them.
struct Counted {
  std::vector<Contributed> parts;
  std::vector<codec::Magnitude> magnitudes;
  std::vector<float> weights;
};

Result<Counted> count(std::span<const transport::Delivery> committed, const WireCodec& codec,
                      const MemberShares& shares, size_t values) {
  Counted counted;
  std::vector<float> piece(std::min(kPieceValues, std::max<size_t>(values, 1)));
  std::optional<Failure> failure;
  for (const transport::Delivery& delivery : committed) {
    const auto place = std::ranges::find(shares.from, delivery.member);
    if (place == shares.from.end()) continue;
    const float weight = shares.weights[static_cast<size_t>(place - shares.from.begin())];
    const Contributed part(delivery, codec, weight);
    const auto magnitude = part.magnitude(values, piece);
    if (!magnitude) {
      failure = magnitude.error();
      continue;
    }
    counted.parts.push_back(part);
    counted.magnitudes.push_back(*magnitude);
    counted.weights.push_back(weight);
  }
  if (counted.parts.empty() && failure) return tl::unexpected(*failure);
  return counted;
}

// The mean: the sum of what was sent, in member order, times what makes up for those who are
// missing.
Result<void> add_up(const Counted& counted, const MemberShares& shares, std::span<float> out) {
  double all = 0, present = 0;
  for (const float weight : shares.weights) all += weight;
  for (const float weight : counted.weights) present += weight;
  const bool complete = counted.weights.size() == shares.weights.size();
  const float factor = complete ? 1 : static_cast<float>(all / present);
  std::vector<float> values(std::min(kPieceValues, out.size()));
  for (size_t first = 0; first < out.size(); first += kPieceValues) {
    const auto sum = out.subspan(first, std::min(kPieceValues, out.size() - first));
    const auto sent = std::span(values).first(sum.size());
    std::ranges::fill(sum, 0.0f);
    for (const Contributed& part : counted.parts) {
      if (auto done = part.read_sent(first, sent); !done) return done;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += sent[i];
    }
    for (float& value : sum) value *= factor;
  }
  return {};
}

}  // namespace

MemberShares shares_of(const Round& round) {
  MemberShares shares;
  for (const RoundMember& member : round.roster) {
    if (member.inactive()) continue;
    shares.from.push_back(member.id);
    shares.weights.push_back(member.weight);
  }
  return shares;
}

void MemberSum::start(const transport::Key& key, std::span<const float> values,
                      const WireCodec& codec, const MemberShares& shares, bool gathered) {
  if (!options_.robust() && !gathered) {
    return communicator_.start_all_reduce(key, values, codec, shares.from);
  }
  gathering_[key] = {&codec, shares, {}};
  Bytes coded;
  if (std::ranges::find(shares.from, communicator_.rank()) != shares.from.end()) {
    coded.resize(wire_bytes(codec.type, values.size()));
    codec.encode(values, coded);
  }
  communicator_.start_all_gather(key, std::move(coded), shares.from);
}

Result<void> MemberSum::gather(const transport::Key& key, Gathering& gathering, double timeout_s) {
  if (gathering.committed) return {};
  auto committed = communicator_.wait_all_gather(key, timeout_s);
  if (!committed) return tl::unexpected(committed.error());
  gathering.committed = std::move(*committed);
  return {};
}

Result<bool> MemberSum::left_out(const transport::Key& key, double timeout_s) {
  if (!gathers(key)) return communicator_.left_out(key, timeout_s);
  Gathering& gathering = gathering_.at(key);
  if (auto done = gather(key, gathering, timeout_s); !done) return tl::unexpected(done.error());
  const int self = communicator_.rank();
  const auto& from = gathering.shares.from;
  return std::ranges::find(from, self) != from.end() &&
         std::ranges::find(*gathering.committed, self, &transport::Delivery::member) ==
             gathering.committed->end();
}

Result<void> MemberSum::wait(const transport::Key& key, std::span<float> out, double timeout_s) {
  if (!gathers(key)) return communicator_.wait_all_reduce(key, out, timeout_s);
  const auto node = gathering_.extract(key);
  Gathering gathering = node.mapped();
  if (auto done = gather(key, gathering, timeout_s); !done) return done;
  const auto counted = count(*gathering.committed, *gathering.codec, gathering.shares, out.size());
  if (!counted) return tl::unexpected(counted.error());
  if (counted->parts.empty()) {  // all of them have left
    std::ranges::fill(out, 0.0f);
    return {};
  }
  if (!options_.robust()) return add_up(*counted, gathering.shares, out);
  const codec::Aggregation aggregation(options_, counted->weights, counted->magnitudes);
  std::vector<std::vector<float>> rows(counted->parts.size(),
                                       std::vector<float>(std::min(kPieceValues, out.size())));
  std::vector<const float*> places;
  for (const auto& row : rows) places.push_back(row.data());
  for (size_t first = 0; first < out.size(); first += kPieceValues) {
    const size_t values = std::min(kPieceValues, out.size() - first);
    for (size_t m = 0; m < rows.size(); ++m) {
      auto done = counted->parts[m].read(first, std::span(rows[m]).first(values));
      if (!done) return done;
    }
    aggregation.combine({places, values, false}, out.data() + first);
  }
  return {};
}

void MemberSum::cancel(const transport::Key& key) {
  gathering_.erase(key);
  communicator_.cancel(key);
}

}  // namespace thinwire::sync

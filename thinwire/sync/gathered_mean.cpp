#include <fmt/format.h>

#include <utility>

#include "thinwire/sync/member_sum.h"

namespace thinwire::sync {

GatheredMean::GatheredMean(GatheredSums sums, ThreadPool& threads)
    : sums_(std::move(sums)),
      threads_(threads),
      sent_shapes_(codec::shapes_of(sums_.form.sent)),
      shapes_(codec::shapes_of(sums_.form.kept)),
      message_(shapes_, sums_.form.values) {}

transport::Communicator::AcceptsSum GatheredMean::accepts() {
  return [this](std::span<const uint8_t> sum) { return read(sum).has_value(); };
}

Result<void> GatheredMean::take(const transport::Gathered& gathered, const codec::PayloadId& id,
                                std::span<const float> weights) {
  if (gathered.sum == nullptr) return form(gathered.committed, id, weights);
  bytes_ = gathered.sum;  // read when it was accepted
  return {};
}

Result<void> GatheredMean::form(std::span<const transport::Delivery> committed,
                                const codec::PayloadId& id, std::span<const float> weights) {
  if (!sum_) sum_.emplace(sums_.form, threads_);
  sum_->begin();
  for (size_t i = 0; i < committed.size(); ++i) {
    const transport::Delivery& one = committed[i];
    codec::PayloadId expected = id;
    expected.sender = static_cast<uint32_t>(one.member);
    const auto body = codec::open_payload(*one.payload, expected, one.late_share > 0);
    if (!body) return tl::unexpected(body.error());
    const auto added = sum_->add(*body, weights[i]);
    if (added) continue;
    return fail(added.error().kind, fmt::format("payload of member {} in round {}: {}", one.member,
                                                id.round, added.error().message));
  }
  bytes_ = std::make_shared<const Bytes>(sum_->finish());
  return read(*bytes_);
}

Result<void> GatheredMean::read(std::span<const uint8_t> message) {
  auto done = message_.open(message);
  if (!done) return done;
  return message_.decode(0, message_.segments().size());
}

bool GatheredMean::keep_left_out(codec::SparseTiles& sent) const {
  return codec::keep_left_out(sent_shapes_, shapes_, message_, sent);
}

}  // namespace thinwire::sync

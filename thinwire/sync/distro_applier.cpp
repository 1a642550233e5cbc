#include "thinwire/sync/distro_applier.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "thinwire/sync/distro_encoder.h"

namespace thinwire::sync {
namespace {

using tensor::TileUpdate;

constexpr size_t kSegmentsDecoded = 8;  // by a thread, one after another

auto of_member(const transport::Delivery& delivery, const Round& round, const Failure& failure) {
  return fail(failure.kind, fmt::format("payload of member {} in round {}: {}", delivery.member,
                                        round.number, failure.message));
}

Result<void> open(const transport::Delivery& delivery, const Round& round,
                  codec::SparseMessage& message) {
  codec::PayloadId expected;
  expected.run = round.run;
  expected.epoch = round.epoch;
  expected.sender = static_cast<uint32_t>(delivery.member);
  expected.round = round.number;
  const auto body = codec::open_payload(*delivery.payload, expected);
  if (!body) return tl::unexpected(body.error());
  const auto done = message.open(*body);
  if (done) return {};
  return of_member(delivery, round, done.error());
}

TileUpdate tile_update_of(method::DistroUpdate update) {
  switch (update) {
    case method::DistroUpdate::kSign:
      return TileUpdate::kSign;
    case method::DistroUpdate::kSgd:
      return TileUpdate::kSubtract;
    case method::DistroUpdate::kAdamW:
      break;
  }
  return TileUpdate::kStore;
}

Result<void> first_failure(std::span<const std::optional<Failure>> failures) {
  for (const std::optional<Failure>& failure : failures) {
    if (failure) return tl::unexpected(*failure);
  }
  return {};
}

}  // namespace

DistroApplier::DistroApplier(const method::DistroOptions& options,
                             const method::OptimizerOptions& optim, const codec::DistroTiles& tiles,
                             const tensor::Layout& layout, ThreadPool& threads)
    : options_(options),
      weight_decay_(optim.weight_decay),
      tiles_(tiles),
      layout_(layout),
      threads_(threads),
      update_(tile_update_of(options.update)),
      work_(codec::make_tile_work(options, tiles, layout, threads)) {
  if (update_ == TileUpdate::kStore) optimizer_ = optim::make_optimizer(optim, layout);
}

Result<void> DistroApplier::apply(std::span<const transport::Delivery> deliveries,
                                  const Round& round, tensor::Arena& params,
                                  tensor::Arena& gradients) {
  auto decoded = decode(deliveries, round);
  if (!decoded) return decoded;
  tensor::Arena& target = update_ == TileUpdate::kStore ? gradients : params;
  std::vector<float> shrinks(layout_.size());
  for (size_t tensor = 0; tensor < shrinks.size(); ++tensor) {
    shrinks[tensor] = shrink(tensor, round.learning_rate);
  }
  work_->step(std::span(received_).first(deliveries.size()),
              {update_, shrinks, round.learning_rate}, target);
  if (update_ == TileUpdate::kStore) {
    optimizer_->step(params, gradients, {round.number, round.learning_rate}, threads_);
  }
  return {};
}

float DistroApplier::shrink(size_t tensor, float lr) const {
  if (!layout_.specs()[tensor].decays()) return 1.0f;
  return 1.0f - lr * static_cast<float>(weight_decay_);
}

std::vector<optim::OptimizerState> DistroApplier::state() {
  return optimizer_ ? optimizer_->state() : std::vector<optim::OptimizerState>();
}

Result<void> DistroApplier::decode(std::span<const transport::Delivery> deliveries,
                                   const Round& round) {
  while (received_.size() < deliveries.size()) {
    received_.emplace_back(tiles_.shapes(), options_.values);
  }
  std::vector<std::optional<Failure>> failures(deliveries.size());
  threads_.for_each(static_cast<int64_t>(deliveries.size()), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    const auto opened = open(deliveries[index], round, received_[index]);
    if (!opened) failures[index] = opened.error();
  });
  if (auto opened = first_failure(failures); !opened) return opened;
  // A task is some segments of a payload, since there may be fewer payloads than threads.
  const size_t segments = tiles_.segments().size();
  const size_t blocks = (segments + kSegmentsDecoded - 1) / kSegmentsDecoded;
  failures.assign(deliveries.size() * blocks, {});
  threads_.for_each(static_cast<int64_t>(failures.size()), [&](int64_t i) {
    const size_t index = static_cast<size_t>(i) / blocks;
    const size_t begin = static_cast<size_t>(i) % blocks * kSegmentsDecoded;
    const auto done = received_[index].decode(begin, std::min(begin + kSegmentsDecoded, segments));
    if (!done) {
      failures[static_cast<size_t>(i)] = of_member(deliveries[index], round, done.error()).value();
    }
  });
  return first_failure(failures);
}

}  // namespace thinwire::sync

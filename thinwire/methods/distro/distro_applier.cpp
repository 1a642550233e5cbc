#include "thinwire/methods/distro/distro_applier.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "thinwire/codec/sparse.h"
#include "thinwire/methods/distro/distro_encoder.h"

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
    case method::DistroUpdate::kMuon:
      break;
  }
  return TileUpdate::kStore;
}

}  // namespace

DistroApplier::DistroApplier(const method::DistroOptions& options,
                             const AggregateOptions& aggregate,
                             const method::OptimizerOptions& optim, const codec::DistroTiles& tiles,
                             const tensor::Layout& layout, ThreadPool& threads)
    : options_(options),
      aggregate_(aggregate),
      weight_decay_(optim.weight_decay),
      tiles_(tiles),
      layout_(layout),
      threads_(threads),
      update_(tile_update_of(options.update)),
      work_(codec::make_tile_work(options, tiles, tiles.layout(), threads)) {
  if (options.update == method::DistroUpdate::kAdamW) {
    optimizer_ = optim::make_optimizer(optim, layout);
  } else if (options.update == method::DistroUpdate::kMuon) {
    optimizer_ = make_distro_muon(options, optim, layout);
  }
}

Result<void> DistroApplier::apply(std::span<const transport::Delivery> deliveries,
                                  const Round& round, tensor::Arena& params,
                                  tensor::Arena& gradients) {
  const auto decoded = decode(deliveries, round);
  if (!decoded) return tl::unexpected(decoded.error());
  const auto counted = std::span(received_).first(*decoded);
  const auto aggregate = aggregation(counted);
  update(counted, aggregate ? &*aggregate : nullptr, round, params, gradients);
  return {};
}

void DistroApplier::update(std::span<const codec::SparseMessage> counted,
                           const codec::Aggregation* aggregate, const Round& round,
                           tensor::Arena& params, tensor::Arena& gradients) {
  tensor::Arena& target = update_ == TileUpdate::kStore ? gradients : params;
  std::vector<float> shrinks(layout_.size());
  for (size_t tensor = 0; tensor < shrinks.size(); ++tensor) {
    shrinks[tensor] = shrink(tensor, round.learning_rate);
  }
  work_->step(counted, {update_, shrinks, round.learning_rate, aggregate}, target);
  if (update_ == TileUpdate::kStore) {
    optimizer_->step(params, gradients, {round.number, round.learning_rate}, threads_);
  }
}

float DistroApplier::shrink(size_t tensor, float lr) const {
  if (!layout_.specs()[tensor].decays()) return 1.0f;
  return 1.0f - lr * static_cast<float>(weight_decay_);
}

std::vector<optim::OptimizerState> DistroApplier::state() {
  return optimizer_ ? optimizer_->state() : std::vector<optim::OptimizerState>();
}

// The members' weights are in what they send (Distro::gain).
std::optional<codec::Aggregation> DistroApplier::aggregation(
    std::span<const codec::SparseMessage> counted) {
  if (!aggregate_.robust() || counted.empty()) return std::nullopt;
  std::vector<codec::Magnitude> magnitudes(counted.size());
  threads_.for_each(static_cast<int64_t>(counted.size()), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    magnitudes[index] = codec::magnitude_of(counted[index], tiles_.shapes());
  });
  const std::vector<float> weights(counted.size(), 1.0f);
  return codec::Aggregation(aggregate_, weights, magnitudes);
}

Result<size_t> DistroApplier::decode(std::span<const transport::Delivery> deliveries,
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
  decode_segments(deliveries, round, failures);
  size_t counted = 0;
  for (size_t i = 0; i < deliveries.size(); ++i) {
    if (failures[i]) continue;
    if (counted != i) std::swap(received_[counted], received_[i]);
    ++counted;
  }
  const auto first =
      std::ranges::find_if(failures, [](const auto& one) { return one.has_value(); });
  const bool fails = aggregate_.robust() ? counted == 0 : true;
  if (first != failures.end() && fails) return tl::unexpected(**first);
  return counted;
}

// A task is some segments of a payload, since there may be fewer payloads than threads. A payload's
// failure is that of its first task that has one.
void DistroApplier::decode_segments(std::span<const transport::Delivery> deliveries,
                                    const Round& round,
                                    std::span<std::optional<Failure>> failures) {
  const size_t segments = tiles_.segments().size();
  const size_t blocks = (segments + kSegmentsDecoded - 1) / kSegmentsDecoded;
  std::vector<std::optional<Failure>> of_tasks(deliveries.size() * blocks);
  threads_.for_each(static_cast<int64_t>(of_tasks.size()), [&](int64_t i) {
    const size_t index = static_cast<size_t>(i) / blocks;
    if (failures[index]) return;
    const size_t begin = static_cast<size_t>(i) % blocks * kSegmentsDecoded;
    const auto done = received_[index].decode(begin, std::min(begin + kSegmentsDecoded, segments));
    if (!done) {
      of_tasks[static_cast<size_t>(i)] = of_member(deliveries[index], round, done.error()).value();
    }
  });
  for (size_t i = 0; i < of_tasks.size(); ++i) {
    std::optional<Failure>& failure = failures[i / blocks];
    if (!failure) failure = std::move(of_tasks[i]);
  }
}

}  // namespace thinwire::sync

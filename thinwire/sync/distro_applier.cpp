#include "thinwire/sync/distro_applier.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "thinwire/base/simd.h"
#include "thinwire/sync/distro_encoder.h"

namespace thinwire::sync {
namespace {

using tensor::TileUpdate;

constexpr size_t kSegmentsDecoded = 8;  // by a thread, one after the other

// Rows of a tile of parameters and of its update.
struct Rows {
  float* params;
  int64_t stride;
  const float* update;
  int64_t update_stride;
  int rows;
  int columns;
};

// params = params * shrink - lr * sign(update)
THINWIRE_CLONES void apply_sign(const Rows& tile, float shrink, float lr) {
  for (int y = 0; y < tile.rows; ++y) {
    float* __restrict p = tile.params + y * tile.stride;
    const float* __restrict x = tile.update + y * tile.update_stride;
    for (int i = 0; i < tile.columns; ++i) {
      const float step = x[i] > 0 ? lr : x[i] < 0 ? -lr : 0.0f;
      p[i] = p[i] * shrink - step;
    }
  }
}

// params = params * shrink - update
THINWIRE_CLONES void subtract(const Rows& tile, float shrink) {
  for (int y = 0; y < tile.rows; ++y) {
    float* __restrict p = tile.params + y * tile.stride;
    const float* __restrict x = tile.update + y * tile.update_stride;
    for (int i = 0; i < tile.columns; ++i) p[i] = p[i] * shrink - x[i];
  }
}

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

Result<void> first_failure(std::span<const std::optional<Failure>> failures) {
  for (const std::optional<Failure>& failure : failures) {
    if (failure) return tl::unexpected(*failure);
  }
  return {};
}

void copy_rows(const Rows& tile) {
  for (int y = 0; y < tile.rows; ++y) {
    std::copy_n(tile.update + y * tile.update_stride, tile.columns, tile.params + y * tile.stride);
  }
}

}  // namespace

DistroApplier::DistroApplier(const method::DistroOptions& options,
                             const method::OptimizerOptions& optim, const DistroTiles& tiles,
                             const tensor::Layout& layout, ThreadPool& threads)
    : options_(options),
      weight_decay_(optim.weight_decay),
      tiles_(tiles),
      layout_(layout),
      threads_(threads),
      update_(options.update == "sign"  ? TileUpdate::kSign
              : options.update == "sgd" ? TileUpdate::kSubtract
                                        : TileUpdate::kStore) {
  if (update_ == TileUpdate::kStore) optimizer_ = optim::make_optimizer(optim, layout);
  for (int thread = 0; thread < threads.size(); ++thread) workspaces_.emplace_back(tiles);
}

DistroApplier::Workspace::Workspace(const DistroTiles& tiles)
    : received(static_cast<size_t>(tiles.max_slots())),
      means(tiles.max_slots()),
      slots(static_cast<size_t>(tiles.max_slots() + codec::SlotMeans::kRoom)),
      values(slots.size()),
      transform(make_float_buffer(std::max<int64_t>(tiles.workspace_size(), 1))) {}

Result<void> DistroApplier::apply(std::span<const transport::Delivery> deliveries,
                                  const Round& round, tensor::Arena& params,
                                  tensor::Arena& gradients) {
  auto decoded = decode(deliveries, round);
  if (!decoded) return decoded;
  tensor::Arena& target = update_ == TileUpdate::kStore ? gradients : params;
  if (on_gpu(target)) {
    update_on_device(deliveries.size(), round.learning_rate, target);
  } else {
    tiles_.for_each_segment(threads_, [&](size_t segment, size_t next, int thread) {
      update_segment(segment, next, deliveries.size(), round.learning_rate, target.all(),
                     workspaces_[static_cast<size_t>(thread)]);
    });
  }
  if (update_ == TileUpdate::kStore) {
    optimizer_->step(params, gradients, {round.number, round.learning_rate}, threads_);
  }
  return {};
}

void DistroApplier::update_on_device(size_t payloads, float lr, tensor::Arena& target) {
  if (device_ == nullptr) {
    device_ = std::make_unique<DistroDevice>(options_, tiles_, layout_, threads_, *target.device());
  }
  std::vector<float> shrinks(layout_.size());
  for (size_t tensor = 0; tensor < shrinks.size(); ++tensor) shrinks[tensor] = shrink(tensor, lr);
  device_->step(std::span(received_).first(payloads), update_, shrinks, lr, target);
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
    received_.emplace_back(tiles_.shapes(), value_coding(options_.values));
  }
  std::vector<std::optional<Failure>> failures(deliveries.size());
  threads_.for_each(static_cast<int64_t>(deliveries.size()), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    const auto opened = open(deliveries[index], round, received_[index]);
    if (!opened) failures[index] = opened.error();
  });
  if (auto opened = first_failure(failures); !opened) return opened;
  // Some segments of each payload, since there may be fewer payloads than threads.
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

void DistroApplier::update_segment(size_t segment, size_t next, size_t payloads, float lr,
                                   std::span<float> target, Workspace& workspace) {
  const codec::SparseSegment& part = tiles_.segments()[segment];
  workspace.read.assign(payloads, 0);
  for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
    const int64_t ahead = tiles_.soon_by_row(segment, next, tile);
    const tensor::SoonNeeded soon = {ahead < 0 ? nullptr : target.data() + ahead, nullptr,
                                     tiles_.kind(part.tensor).slots()};
    const Aggregate aggregate = aggregate_tile(segment, tile, payloads, workspace);
    update_tile(part.tensor, tile, aggregate, lr, target, soon, workspace);
  }
}

DistroApplier::Aggregate DistroApplier::aggregate_tile(size_t segment, int64_t tile,
                                                       size_t payloads, Workspace& workspace) {
  const codec::SparseShape& shape = tiles_.shapes()[tiles_.segments()[segment].tensor];
  const int64_t first = shape.first_kept + tile * shape.kept;
  for (size_t i = 0; i < payloads; ++i) {
    const codec::SparseMessage& sent = received_[i];
    const uint32_t count = sent.count(shape.first_tile + tile);
    sent.read_values(segment, workspace.read[i], count, workspace.received.data());
    workspace.read[i] += count;
    // What one member sent is its own mean.
    if (payloads == 1) return {{sent.slots(first), count}, workspace.received.data()};
    __builtin_prefetch(sent.slots(first + 2 * shape.kept));
    workspace.means.add(sent.slots(first), workspace.received.data(), count);
  }
  const bool of_senders = options_.aggregate == "mean_of_senders";
  const uint32_t count =
      workspace.means.take(shape.slots, of_senders ? 0 : static_cast<uint32_t>(payloads),
                           workspace.slots.data(), workspace.values.data());
  return {std::span(workspace.slots).first(count), workspace.values.data()};
}

void DistroApplier::update_tile(size_t tensor, int64_t tile, const Aggregate& aggregate, float lr,
                                std::span<float> target, const tensor::SoonNeeded& soon,
                                Workspace& workspace) {
  const TileKind& kind = tiles_.kind(tensor);
  const TilePlace place = tiles_.place(tensor, tile);
  float* params = target.data() + place.offset;
  const float by = shrink(tensor, lr);
  if (update_ == TileUpdate::kSign && options_.transform == "dct") {
    return kind.dct.step(aggregate.slots, aggregate.values, {by, lr}, params, place.stride,
                         workspace.transform.get(), soon);
  }
  int64_t stride = 0;
  const float* update = tile_update(tensor, aggregate, workspace, stride);
  const Rows rows{params, place.stride, update, stride, kind.rows, kind.columns};
  switch (update_) {
    case TileUpdate::kSign:
      return apply_sign(rows, by, lr);
    case TileUpdate::kSubtract:
      return subtract(rows, by);
    case TileUpdate::kStore:
      return copy_rows(rows);
  }
}

const float* DistroApplier::tile_update(size_t tensor, const Aggregate& aggregate,
                                        Workspace& workspace, int64_t& stride) {
  const TileKind& kind = tiles_.kind(tensor);
  float* tile = workspace.transform.get();
  if (options_.transform == "dct") {
    stride = kind.dct.row_stride();
    return kind.dct.inverse(aggregate.slots, aggregate.values, tile);
  }
  stride = kind.columns;
  std::fill_n(tile, kind.slots(), 0.0f);
  for (size_t i = 0; i < aggregate.slots.size(); ++i) {
    tile[aggregate.slots[i]] = aggregate.values[i];
  }
  return tile;
}

}  // namespace thinwire::sync

#include <algorithm>

#include "thinwire/base/simd.h"
#include "thinwire/methods/distro/tile_work_sides.h"

namespace thinwire::codec {
namespace {

using tensor::TileUpdate;

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

void copy_rows(const Rows& tile) {
  for (int y = 0; y < tile.rows; ++y) {
    std::copy_n(tile.update + y * tile.update_stride, tile.columns, tile.params + y * tile.stride);
  }
}

// Without a transform: blends the tile itself, in the order of coefficients, column by column.
void blend_tile(const float* tile, int64_t stride, const TileKind& kind, const tensor::Blend& blend,
                float* momentum) {
  for (int b = 0; b < kind.columns; ++b) {
    for (int a = 0; a < kind.rows; ++a, ++momentum) {
      *momentum = blend.decay * *momentum + blend.gain * tile[a * stride + b];
    }
  }
}

const float* place_in(std::span<const float> arena, int64_t offset) {
  return offset < 0 ? nullptr : arena.data() + offset;
}

}  // namespace

VectorTileWork::TakeMemory::TakeMemory(const DistroTiles& tiles)
    : transform(make_float_buffer(tiles.workspace_size())) {
  for (const TileKind& kind : tiles.kinds()) top_k.emplace_back(kind.rows, kind.columns, kind.kept);
}

VectorTileWork::StepMemory::StepMemory(const DistroTiles& tiles)
    : received(static_cast<size_t>(tiles.max_slots())),
      means(tiles.max_slots()),
      slots(static_cast<size_t>(tiles.max_slots() + SlotMeans::kPadding)),
      values(slots.size()),
      transform(make_float_buffer(std::max<int64_t>(tiles.workspace_size(), 1))) {}

void VectorTileWork::take(const tensor::Arena& gradients, float gain, tensor::Arena& momentum,
                          SparseTiles& sent) {
  guesses_.resize(sent.counts.size());
  while (taking_.size() < static_cast<size_t>(threads_.size())) taking_.emplace_back(tiles_);
  const std::span<const float> all = momentum.all();
  tiles_.for_each_segment(threads_, [&](size_t segment, size_t next, int thread) {
    const SparseSegment& part = tiles_.segments()[segment];
    for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
      const tensor::PrefetchHints prefetch = {
          place_in(gradients.all(), tiles_.prefetch_by_row(segment, next, tile)),
          place_in(all, tiles_.prefetch_by_tile(segment, next, tile)),
          tiles_.kind(part.tensor).slots()};
      take_from_tile(gradients, gain, momentum, sent, part.tensor, tile, prefetch,
                     taking_[static_cast<size_t>(thread)]);
    }
  });
  if (options_.feedback) exact_ = sent.values;
}

void VectorTileWork::take_from_tile(const tensor::Arena& gradients, float gain,
                                    tensor::Arena& momentum_arena, SparseTiles& sent, size_t tensor,
                                    int64_t tile, const tensor::PrefetchHints& prefetch,
                                    TakeMemory& memory) {
  const TileKind& kind = tiles_.kind(tensor);
  const SparseShape& shape = tiles_.shapes()[tensor];
  const TilePlace place = tiles_.place(tensor, tile);
  const float* gradient = gradients.all().data() + place.offset;
  const tensor::Blend blend = {static_cast<float>(options_.decay), gain};
  float* momentum = momentum_arena.tensor(tensor).data() + tile * kind.slots();
  if (options_.transform == method::DistroTransform::kDct) {
    kind.dct.accumulate(gradient, place.stride, blend, momentum, memory.transform.get(), prefetch);
  } else {
    blend_tile(gradient, place.stride, kind, blend, momentum);
  }
  const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
  const auto index = static_cast<size_t>(shape.first_tile + tile);
  const int taken = memory.top_k[tiles_.kind_index(tensor)].take(
      momentum, sent.slots.data() + first, sent.values.data() + first, guesses_[index]);
  sent.counts[index] = static_cast<uint32_t>(taken);
}

void VectorTileWork::add_back(const SparseTiles& sent, tensor::Arena& momentum) {
  threads_.for_each(static_cast<int64_t>(tiles_.shapes().size()), [&](int64_t index) {
    const auto tensor = static_cast<size_t>(index);
    add_back(sent, tensor, momentum.tensor(tensor));
  });
}

// Adds back what quantisation keeps from the receivers.
void VectorTileWork::add_back(const SparseTiles& sent, size_t tensor,
                              std::span<float> momentum) const {
  const SparseShape& shape = tiles_.shapes()[tensor];
  const TopK& top_k = taking_.front().top_k[tiles_.kind_index(tensor)];
  for (int64_t tile = 0; tile < shape.tiles; ++tile) {
    const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
    const size_t count = sent.counts[static_cast<size_t>(shape.first_tile + tile)];
    for (size_t i = first; i < first + count; ++i) {
      const int64_t at = tile * shape.slots + top_k.position(sent.slots[i]);
      momentum[static_cast<size_t>(at)] = exact_[i] - sent.values[i];
    }
  }
}

void VectorTileWork::step(std::span<const SparseMessage> messages, const TileStep& step,
                          tensor::Arena& target) {
  while (stepping_.size() < static_cast<size_t>(threads_.size())) stepping_.emplace_back(tiles_);
  const std::span<float> all = target.all();
  tiles_.for_each_segment(threads_, [&](size_t segment, size_t next, int thread) {
    step_segment(segment, next, messages, step, all, stepping_[static_cast<size_t>(thread)]);
  });
}

void VectorTileWork::step_segment(size_t segment, size_t next,
                                  std::span<const SparseMessage> messages, const TileStep& step,
                                  std::span<float> target, StepMemory& memory) const {
  const SparseSegment& part = tiles_.segments()[segment];
  memory.read.assign(messages.size(), 0);
  memory.rows.begin(messages.size());
  for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
    const int64_t ahead = tiles_.prefetch_by_row(segment, next, tile);
    const tensor::PrefetchHints prefetch = {place_in(target, ahead), nullptr,
                                            tiles_.kind(part.tensor).slots()};
    const Aggregate aggregate =
        step.aggregation == nullptr
            ? aggregate_tile(segment, tile, messages, memory)
            : aggregate_tile(segment, tile, messages, *step.aggregation, memory);
    step_tile(part.tensor, tile, aggregate, step, target, prefetch, memory);
  }
}

VectorTileWork::Aggregate VectorTileWork::aggregate_tile(size_t segment, int64_t tile,
                                                         std::span<const SparseMessage> messages,
                                                         StepMemory& memory) const {
  const size_t tensor = tiles_.segments()[segment].tensor;
  const SparseShape& shape = tiles_.shapes()[tensor];
  const int64_t first = shape.first_kept + tile * shape.kept;
  const bool dense = is_dense(messages, shape, tile);
  const uint16_t* const places = dense ? tiles_.kind(tensor).places.data() : nullptr;
  for (size_t i = 0; i < messages.size(); ++i) {
    const SparseMessage& sent = messages[i];
    const uint32_t count = sent.count(shape.first_tile + tile);
    sent.read_values(segment, memory.read[i], count, memory.received.data());
    memory.read[i] += count;
    // With a single sender, what it sent is the mean.
    if (messages.size() == 1) return {{sent.slots(first), count}, memory.received.data()};
    __builtin_prefetch(sent.slots(first + 2 * shape.kept));
    memory.means.add(sent.slots(first), memory.received.data(), count, places);
  }
  const bool of_senders = options_.aggregate == method::SlotMean::kOfSenders;
  const uint32_t by = of_senders ? 0 : static_cast<uint32_t>(messages.size());
  if (dense) {
    memory.means.take_all(shape.slots, by, memory.values.data());
    return {.all = memory.values.data()};
  }
  const uint32_t count =
      memory.means.take(shape.slots, by, memory.slots.data(), memory.values.data());
  return {std::span(memory.slots).first(count), memory.values.data()};
}

bool VectorTileWork::is_dense(std::span<const SparseMessage> messages, const SparseShape& shape,
                              int64_t tile) const {
  if (options_.transform == method::DistroTransform::kNone) return false;
  int64_t entries = 0;
  for (const SparseMessage& sent : messages) entries += sent.count(shape.first_tile + tile);
  return tensor::is_dense(std::ssize(messages), entries, shape.slots);
}

VectorTileWork::Aggregate VectorTileWork::aggregate_tile(size_t segment, int64_t tile,
                                                         std::span<const SparseMessage> messages,
                                                         const Aggregation& aggregation,
                                                         StepMemory& memory) const {
  const SparseShape& shape = tiles_.shapes()[tiles_.segments()[segment].tensor];
  const auto slots = static_cast<size_t>(shape.slots);
  memory.aggregate.resize(slots);
  aggregation.combine({memory.rows.expand(messages, segment, shape, tile), slots,
                       options_.aggregate == method::SlotMean::kOfSenders},
                      memory.aggregate.data());
  size_t count = 0;
  for (size_t slot = 0; slot < slots; ++slot) {
    if (memory.aggregate[slot] == 0) continue;
    memory.slots[count] = static_cast<uint16_t>(slot);
    memory.values[count++] = memory.aggregate[slot];
  }
  return {std::span(memory.slots).first(count), memory.values.data()};
}

void VectorTileWork::step_tile(size_t tensor, int64_t tile, const Aggregate& aggregate,
                               const TileStep& step, std::span<float> target,
                               const tensor::PrefetchHints& prefetch, StepMemory& memory) const {
  const TileKind& kind = tiles_.kind(tensor);
  const TilePlace place = tiles_.place(tensor, tile);
  float* params = target.data() + place.offset;
  const float shrink = step.shrink[tensor];
  if (step.update == TileUpdate::kSign && options_.transform == method::DistroTransform::kDct) {
    return kind.dct.step(aggregate, {shrink, step.learning_rate}, params, place.stride,
                         memory.transform.get(), prefetch);
  }
  int64_t stride = 0;
  const float* update = tile_update(tensor, aggregate, memory, stride);
  const Rows rows{params, place.stride, update, stride, kind.rows, kind.columns};
  switch (step.update) {
    case TileUpdate::kSign:
      return apply_sign(rows, shrink, step.learning_rate);
    case TileUpdate::kSubtract:
      return subtract(rows, shrink);
    case TileUpdate::kStore:
      return copy_rows(rows);
  }
}

const float* VectorTileWork::tile_update(size_t tensor, const Aggregate& aggregate,
                                         StepMemory& memory, int64_t& stride) const {
  const TileKind& kind = tiles_.kind(tensor);
  float* tile = memory.transform.get();
  if (options_.transform == method::DistroTransform::kDct) {
    stride = kind.dct.row_stride();
    return kind.dct.inverse(aggregate, tile);
  }
  stride = kind.columns;
  std::fill_n(tile, kind.slots(), 0.0f);
  for (size_t i = 0; i < aggregate.slots.size(); ++i) {
    tile[aggregate.slots[i]] = aggregate.values[i];
  }
  return tile;
}

}  // namespace thinwire::codec

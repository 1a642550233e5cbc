#include "thinwire/sync/distro_applier.h"

#include <fmt/format.h>

#include <bit>
#include <optional>

#include "thinwire/base/simd.h"
#include "thinwire/sync/distro_encoder.h"

namespace thinwire::sync {
namespace {

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

THINWIRE_CLONES void divide(float* __restrict values, const float* __restrict divisors,
                            size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] /= divisors[i];
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
                             const config::OptimSection& optim, const DistroTiles& tiles,
                             const tensor::Layout& layout, ThreadPool& threads)
    : options_(options),
      optim_(optim),
      tiles_(tiles),
      layout_(layout),
      threads_(threads),
      update_(options.update == "sign"  ? Update::kSign
              : options.update == "sgd" ? Update::kSgd
                                        : Update::kOptimizer) {
  if (update_ == Update::kOptimizer) optimizer_ = optim::make_optimizer(optim, layout);
  const auto slots = static_cast<size_t>(tiles.max_slots());
  for (int thread = 0; thread < threads.size(); ++thread) {
    Workspace& workspace = workspaces_.emplace_back();
    workspace.received.resize(slots);
    workspace.sums.resize(slots);
    workspace.senders.resize(slots);
    workspace.touched.resize((slots + 63) / 64);
    workspace.slots.resize(slots);
    workspace.values.resize(slots);
    workspace.divisors.resize(slots);
    workspace.transform = make_float_buffer(std::max<int64_t>(tiles.workspace_size(), 1));
  }
}

Result<void> DistroApplier::apply(std::span<const transport::Delivery> deliveries,
                                  const Round& round, tensor::Arena& params,
                                  tensor::Arena& gradients) {
  auto decoded = decode(deliveries, round);
  if (!decoded) return decoded;
  const std::span<float> target = update_ == Update::kOptimizer ? gradients.all() : params.all();
  tiles_.for_each_segment(threads_, [&](size_t segment, int thread) {
    update_segment(segment, deliveries.size(), round.learning_rate, target,
                   workspaces_[static_cast<size_t>(thread)]);
  });
  if (update_ == Update::kOptimizer) {
    optimizer_->step(params, gradients, 1.0f, round.learning_rate, round.number, threads_);
  }
  return {};
}

std::vector<optim::OptimizerState> DistroApplier::state() {
  return optimizer_ ? optimizer_->state() : std::vector<optim::OptimizerState>();
}

Result<void> DistroApplier::decode(std::span<const transport::Delivery> deliveries,
                                   const Round& round) {
  while (received_.size() < deliveries.size()) {
    received_.emplace_back(tiles_.shapes(), value_coding(options_.values));
  }
  const size_t segments = tiles_.segments().size();
  std::vector<std::optional<Failure>> failures(deliveries.size() * std::max<size_t>(segments, 1));
  threads_.for_each(static_cast<int64_t>(deliveries.size()), [&](int64_t i) {
    const auto index = static_cast<size_t>(i);
    const auto opened = open(deliveries[index], round, received_[index]);
    if (!opened) failures[index] = opened.error();
  });
  if (auto opened = first_failure(failures); !opened) return opened;
  threads_.for_each(static_cast<int64_t>(deliveries.size() * segments), [&](int64_t i) {
    const size_t index = static_cast<size_t>(i) / segments;
    const size_t segment = static_cast<size_t>(i) % segments;
    const auto done = received_[index].decode(segment);
    if (!done) {
      failures[static_cast<size_t>(i)] = of_member(deliveries[index], round, done.error()).value();
    }
  });
  return first_failure(failures);
}

void DistroApplier::update_segment(size_t segment, size_t payloads, float lr,
                                   std::span<float> target, Workspace& workspace) {
  const codec::SparseSegment& part = tiles_.segments()[segment];
  workspace.read.assign(payloads, 0);
  for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
    const size_t count = aggregate_tile(segment, tile, payloads, workspace);
    int64_t stride = 0;
    const TilePlace place = tiles_.place(part.tensor, tile);
    const tensor::SoonNeeded soon = {target.data() + place.offset, place.stride};
    const float* update = tile_update(part.tensor, count, soon, workspace, stride);
    update_tile(part.tensor, lr, update, stride, target, place);
  }
}

size_t DistroApplier::aggregate_tile(size_t segment, int64_t tile, size_t payloads,
                                     Workspace& workspace) {
  const codec::SparseShape& shape = tiles_.shapes()[tiles_.segments()[segment].tensor];
  for (size_t i = 0; i < payloads; ++i) {
    const codec::SparseMessage& sent = received_[i];
    const uint16_t* slots = sent.slots(shape.first_kept + tile * shape.kept);
    const uint32_t count = sent.count(shape.first_tile + tile);
    sent.read_values(segment, workspace.read[i], count, workspace.received.data());
    workspace.read[i] += count;
    for (uint32_t entry = 0; entry < count; ++entry) {
      const size_t slot = slots[entry];
      workspace.sums[slot] += workspace.received[entry];
      ++workspace.senders[slot];
      workspace.touched[slot / 64] |= uint64_t{1} << (slot % 64);
    }
  }
  return take_means(shape, payloads, workspace);
}

size_t DistroApplier::take_means(const codec::SparseShape& shape, size_t payloads,
                                 Workspace& workspace) {
  const bool of_senders = options_.aggregate == "mean_of_senders";
  size_t count = 0;
  for (size_t word = 0; word < static_cast<size_t>(shape.slots + 63) / 64; ++word) {
    for (uint64_t& bits = workspace.touched[word]; bits != 0; bits &= bits - 1) {
      const size_t slot = 64 * word + static_cast<size_t>(std::countr_zero(bits));
      workspace.slots[count] = static_cast<uint16_t>(slot);
      workspace.values[count] = workspace.sums[slot];
      workspace.divisors[count++] = static_cast<float>(
          of_senders ? workspace.senders[slot] : static_cast<uint32_t>(payloads));
      workspace.sums[slot] = 0;
      workspace.senders[slot] = 0;
    }
  }
  divide(workspace.values.data(), workspace.divisors.data(), count);
  return count;
}

const float* DistroApplier::tile_update(size_t tensor, size_t count, const tensor::SoonNeeded& soon,
                                        Workspace& workspace, int64_t& stride) {
  const TileKind& kind = tiles_.kind(tensor);
  const std::span<const uint16_t> slots(workspace.slots.data(), count);
  float* tile = workspace.transform.get();
  if (options_.transform == "dct" && count > 0) {
    stride = kind.dct.row_stride();
    return kind.dct.inverse(slots, workspace.values.data(), tile, soon);
  }
  stride = kind.columns;
  std::fill_n(tile, kind.slots(), 0.0f);
  for (size_t i = 0; i < count; ++i) tile[slots[i]] = workspace.values[i];
  return tile;
}

void DistroApplier::update_tile(size_t tensor, float lr, const float* update, int64_t update_stride,
                                std::span<float> target, const TilePlace& place) {
  const TileKind& kind = tiles_.kind(tensor);
  const Rows rows{
      target.data() + place.offset, place.stride, update, update_stride, kind.rows, kind.columns};
  const float shrink =
      layout_.specs()[tensor].decays() ? 1.0f - lr * static_cast<float>(optim_.weight_decay) : 1.0f;
  switch (update_) {
    case Update::kSign:
      return apply_sign(rows, shrink, lr);
    case Update::kSgd:
      return subtract(rows, shrink);
    case Update::kOptimizer:
      return copy_rows(rows);
  }
}

}  // namespace thinwire::sync

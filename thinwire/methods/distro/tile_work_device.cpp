#include <algorithm>
#include <cassert>
#include <functional>
#include <ranges>

#include "thinwire/methods/distro/tile_work_sides.h"
#include "thinwire/tensor/dct/dct_tables.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::codec {
namespace {

tensor::DeviceBuffer<float> uploaded(const tensor::DevicePlace& place,
                                     std::span<const float> values) {
  tensor::DeviceBuffer<float> copy(place, values.size());
  std::ranges::copy(values, copy.host().begin());
  copy.upload();
  return copy;
}

// Where the kernels use an arena.
float* values_of(tensor::Arena& arena) {
  return arena.device() == nullptr ? arena.all().data() : arena.device_values();
}
const float* values_of(const tensor::Arena& arena) {
  return arena.device() == nullptr ? arena.all().data() : arena.device_values();
}

}  // namespace

DeviceTileWork::Entries::Entries(const tensor::DevicePlace& place, size_t tile_count,
                                 size_t kept_count, size_t member_count)
    : members(member_count),
      counts(place, member_count * tile_count),
      slots(place, member_count * kept_count),
      values(place, member_count * kept_count) {}

DeviceTileWork::DeviceTileWork(const method::DistroOptions& options, const DistroTiles& tiles,
                               const tensor::Layout& layout, ThreadPool& threads,
                               const tensor::DevicePlace& place)
    : options_(options),
      tiles_(tiles),
      layout_(layout),
      threads_(threads),
      place_(place),
      rotations_(uploaded(place, tensor::portable_rotations())),
      scratch_(place, static_cast<size_t>(layout.total())) {
  for (const TileKind& kind : tiles.kinds()) {
    const size_t rows = add_side(kind.rows);
    sides_of_.emplace_back(rows, add_side(kind.columns));
  }
}

size_t DeviceTileWork::add_side(int n) {
  const auto found = std::ranges::find_if(sides_, [&](const Side& side) { return side.n == n; });
  const auto index = static_cast<size_t>(found - sides_.begin());
  if (found != sides_.end()) return index;
  const tensor::DctSide side(n);
  sides_.push_back(
      {n, tensor::padded(n), uploaded(place_, side.norm), uploaded(place_, side.basis)});
  return index;
}

tensor::PortableTiles DeviceTileWork::tiles_of(size_t tensor) {
  const auto portable = [&](Side& side) {
    return tensor::PortableSide{side.n, side.norm.device(), side.basis.device(), side.stride,
                                rotations_.device()};
  };
  const auto [rows, columns] = sides_of_[tiles_.kind_index(tensor)];
  return {portable(sides_[rows]), portable(sides_[columns]),
          tiles_.plan().tensors[tensor].grid_columns(),
          options_.transform == method::DistroTransform::kDct};
}

DeviceTileWork::Entries& DeviceTileWork::entries_of(size_t members) {
  if (entries_ == nullptr || entries_->members < members) {
    entries_.reset();
    entries_ = std::make_unique<Entries>(place_, static_cast<size_t>(tiles_.plan().tiles),
                                         static_cast<size_t>(tiles_.plan().kept), members);
  }
  return *entries_;
}

void DeviceTileWork::take(const tensor::Arena& gradients, float gain, tensor::Arena& momentum,
                          SparseTiles& sent) {
  if (gradients.device() != nullptr) momentum.mirror_on(place_);
  Entries& taken = entries_of(1);
  const float* const from = values_of(gradients);
  float* const to = values_of(momentum);
  for (size_t tensor = 0; tensor < layout_.size(); ++tensor) {
    const SparseShape& shape = tiles_.shapes()[tensor];
    const int64_t offset = layout_.offset(tensor);
    const tensor::TakeFromTiles kernel = {tiles_of(tensor),
                                          static_cast<float>(options_.decay),
                                          gain,
                                          shape.kept,
                                          from + offset,
                                          to + offset,
                                          scratch_.device() + offset,
                                          taken.counts.device() + shape.first_tile,
                                          taken.slots.device() + shape.first_kept,
                                          taken.values.device() + shape.first_kept};
    tensor::launch(place_, threads_, kernel, shape.tiles);
  }
  taken.counts.download();
  taken.slots.download();
  taken.values.download();
  std::copy_n(taken.counts.host().begin(), sent.counts.size(), sent.counts.begin());
  std::copy_n(taken.slots.host().begin(), sent.slots.size(), sent.slots.begin());
  std::copy_n(taken.values.host().begin(), sent.values.size(), sent.values.begin());
}

void DeviceTileWork::add_back(const SparseTiles& sent, tensor::Arena& momentum) {
  Entries& taken = entries_of(1);
  std::ranges::transform(taken.values.host() | std::views::take(sent.values.size()), sent.values,
                         taken.values.host().begin(), std::minus<>());
  taken.values.upload();
  float* const to = values_of(momentum);
  for (size_t tensor = 0; tensor < layout_.size(); ++tensor) {
    const SparseShape& shape = tiles_.shapes()[tensor];
    const tensor::PutIntoTiles kernel = {tiles_of(tensor),
                                         shape.kept,
                                         taken.counts.device() + shape.first_tile,
                                         taken.slots.device() + shape.first_kept,
                                         taken.values.device() + shape.first_kept,
                                         to + layout_.offset(tensor)};
    tensor::launch(place_, threads_, kernel, shape.tiles);
  }
}

void DeviceTileWork::list(const SparseMessage& message, size_t member, Entries& entries) const {
  const auto first_tile = static_cast<int64_t>(member) * tiles_.plan().tiles;
  const auto first_kept = static_cast<int64_t>(member) * tiles_.plan().kept;
  for (size_t index = 0; index < tiles_.segments().size(); ++index) {
    const SparseSegment& segment = tiles_.segments()[index];
    const SparseShape& shape = tiles_.shapes()[segment.tensor];
    int64_t read = 0;
    for (int64_t tile = segment.first_tile; tile < segment.first_tile + segment.tiles; ++tile) {
      const int64_t at = shape.first_kept + tile * shape.kept;
      const uint32_t count = message.count(shape.first_tile + tile);
      entries.counts.host()[static_cast<size_t>(first_tile + shape.first_tile + tile)] = count;
      std::copy_n(message.slots(at), count, entries.slots.host().begin() + first_kept + at);
      message.read_values(index, read, count, entries.values.host().data() + first_kept + at);
      read += count;
    }
  }
}

void DeviceTileWork::step(std::span<const SparseMessage> messages, const TileStep& step,
                          tensor::Arena& target) {
  assert(step.aggregation == nullptr);
  Entries& sent = entries_of(messages.size());
  threads_.for_each(static_cast<int64_t>(messages.size()), [&](int64_t member) {
    list(messages[static_cast<size_t>(member)], static_cast<size_t>(member), sent);
  });
  sent.counts.upload();
  sent.slots.upload();
  sent.values.upload();
  if (!senders_) {
    senders_.emplace(place_, static_cast<size_t>(layout_.total()));
  }
  float* const to = values_of(target);
  for (size_t tensor = 0; tensor < layout_.size(); ++tensor) {
    const SparseShape& shape = tiles_.shapes()[tensor];
    const int64_t offset = layout_.offset(tensor);
    const tensor::StepTiles kernel = {tiles_of(tensor),
                                      step.update,
                                      step.shrink[tensor],
                                      step.learning_rate,
                                      options_.aggregate == method::SlotMean::kOfSenders,
                                      shape.kept,
                                      static_cast<int64_t>(messages.size()),
                                      tiles_.plan().tiles,
                                      tiles_.plan().kept,
                                      sent.counts.device() + shape.first_tile,
                                      sent.slots.device() + shape.first_kept,
                                      sent.values.device() + shape.first_kept,
                                      scratch_.device() + offset,
                                      senders_->device() + offset,
                                      to + offset};
    tensor::launch(place_, threads_, kernel, shape.tiles);
  }
}

}  // namespace thinwire::codec

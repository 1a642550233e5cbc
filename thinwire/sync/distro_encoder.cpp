#include "thinwire/sync/distro_encoder.h"

namespace thinwire::sync {
namespace {

// Without a transform: the tile itself in the order of coefficients, column by column.
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

DistroEncoder::DistroEncoder(const method::DistroOptions& options, const DistroTiles& tiles,
                             const tensor::Layout& layout, ThreadPool& threads)
    : options_(options),
      tiles_(tiles),
      layout_(layout),
      threads_(threads),
      momentum_(layout),
      sent_(tiles.shapes()),
      guesses_(sent_.counts.size()) {
  if (options.feedback) exact_.resize(sent_.values.size());
  for (int thread = 0; thread < threads.size(); ++thread) {
    Workspace& workspace = workspaces_.emplace_back();
    for (const TileKind& kind : tiles.kinds()) {
      workspace.top_k.emplace_back(kind.rows, kind.columns, kind.kept);
    }
    workspace.transform = make_float_buffer(tiles.workspace_size());
  }
}

Bytes DistroEncoder::encode(const tensor::Arena& gradients, float gain,
                            const codec::PayloadId& id) {
  if (on_gpu(gradients) && device_ == nullptr) {
    device_ =
        std::make_unique<DistroDevice>(options_, tiles_, layout_, threads_, *gradients.device());
  }
  if (on_gpu(gradients)) {
    device_->take(gradients, gain, momentum_, sent_);
  } else {
    take_from_tiles(gradients, gain);
  }
  const auto tensors = static_cast<int64_t>(tiles_.shapes().size());
  threads_.for_each(tensors, [&](int64_t tensor) { quantise_tensor(size_t(tensor)); });
  if (options_.feedback && on_gpu(gradients)) {
    device_->put_back(sent_, momentum_);
  } else if (options_.feedback) {
    threads_.for_each(tensors, [&](int64_t tensor) { put_back(size_t(tensor)); });
  }
  Bytes payload;
  payload.reserve(static_cast<size_t>(
      method::distro_payload_bound(tiles_.plan(), value_bits(options_.values))));
  codec::begin_payload(id, payload);
  codec::encode_sparse(tiles_.shapes(), options_.values, sent_, threads_, payload);
  codec::seal_payload(payload);
  return payload;
}

void DistroEncoder::take_from_tiles(const tensor::Arena& gradients, float gain) {
  tiles_.for_each_segment(threads_, [&](size_t segment, size_t next, int thread) {
    const codec::SparseSegment& part = tiles_.segments()[segment];
    Workspace& workspace = workspaces_[static_cast<size_t>(thread)];
    for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
      const tensor::SoonNeeded soon = {
          place_in(gradients.all(), tiles_.soon_by_row(segment, next, tile)),
          place_in(momentum_.all(), tiles_.soon_by_tile(segment, next, tile)),
          tiles_.kind(part.tensor).slots()};
      take_from_tile(gradients, gain, part.tensor, tile, soon, workspace);
    }
  });
}

void DistroEncoder::take_from_tile(const tensor::Arena& gradients, float gain, size_t tensor,
                                   int64_t tile, const tensor::SoonNeeded& soon,
                                   Workspace& workspace) {
  const TileKind& kind = tiles_.kind(tensor);
  const codec::SparseShape& shape = tiles_.shapes()[tensor];
  const TilePlace place = tiles_.place(tensor, tile);
  const float* gradient = gradients.all().data() + place.offset;
  const tensor::Blend blend = {static_cast<float>(options_.decay), gain};
  float* momentum = momentum_.tensor(tensor).data() + tile * kind.slots();
  if (options_.transform == method::DistroTransform::kDct) {
    kind.dct.accumulate(gradient, place.stride, blend, momentum, workspace.transform.get(), soon);
  } else {
    blend_tile(gradient, place.stride, kind, blend, momentum);
  }
  const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
  const auto index = static_cast<size_t>(shape.first_tile + tile);
  const int taken = workspace.top_k[tiles_.kind_index(tensor)].take(
      momentum, sent_.slots.data() + first, sent_.values.data() + first, guesses_[index]);
  sent_.counts[index] = static_cast<uint32_t>(taken);
}

void DistroEncoder::quantise_tensor(size_t tensor) {
  const codec::SparseShape& shape = tiles_.shapes()[tensor];
  if (options_.feedback) {
    std::copy_n(sent_.values.begin() + shape.first_kept, shape.tiles * shape.kept,
                exact_.begin() + shape.first_kept);
  }
  codec::quantise(shape, tensor, options_.values, sent_);
}

// What the receivers will not get goes back to where it was taken from.
void DistroEncoder::put_back(size_t tensor) {
  const codec::SparseShape& shape = tiles_.shapes()[tensor];
  const codec::TopK& top_k = workspaces_.front().top_k[tiles_.kind_index(tensor)];
  float* momentum = momentum_.tensor(tensor).data();
  for (int64_t tile = 0; tile < shape.tiles; ++tile) {
    const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
    const size_t count = sent_.counts[static_cast<size_t>(shape.first_tile + tile)];
    for (size_t i = first; i < first + count; ++i) {
      momentum[tile * shape.slots + top_k.position(sent_.slots[i])] = exact_[i] - sent_.values[i];
    }
  }
}

}  // namespace thinwire::sync

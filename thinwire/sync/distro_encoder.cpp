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

}  // namespace

codec::ValueCoding value_coding(const std::string& values) {
  if (values == "fp32") return codec::ValueCoding::kF32;
  if (values == "bf16") return codec::ValueCoding::kBf16;
  return values == "int8" ? codec::ValueCoding::kInt8 : codec::ValueCoding::kOneBit;
}

DistroEncoder::DistroEncoder(const method::DistroOptions& options, const DistroTiles& tiles,
                             const tensor::Layout& layout, ThreadPool& threads)
    : options_(options),
      tiles_(tiles),
      threads_(threads),
      coding_(value_coding(options.values)),
      momentum_(layout),
      sent_(tiles.shapes()) {
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
  tiles_.for_each(threads_, [&](size_t tensor, int64_t tile, int thread) {
    take_from_tile(gradients, gain, tensor, tile, workspaces_[static_cast<size_t>(thread)]);
  });
  threads_.for_each(static_cast<int64_t>(tiles_.shapes().size()),
                    [&](int64_t tensor) { quantise_tensor(static_cast<size_t>(tensor)); });
  Bytes payload;
  payload.reserve(static_cast<size_t>(
      method::distro_payload_bound(tiles_.plan(), method::distro_value_bits(options_.values))));
  codec::begin_payload(id, payload);
  codec::encode_sparse(tiles_.shapes(), coding_, sent_, threads_, payload);
  codec::seal_payload(payload);
  return payload;
}

void DistroEncoder::take_from_tile(const tensor::Arena& gradients, float gain, size_t tensor,
                                   int64_t tile, Workspace& workspace) {
  const TileKind& kind = tiles_.kind(tensor);
  const codec::SparseShape& shape = tiles_.shapes()[tensor];
  const TilePlace place = tiles_.place(tensor, tile);
  const float* gradient = gradients.all().data() + place.offset;
  const tensor::Blend blend = {static_cast<float>(options_.decay), gain};
  float* momentum = momentum_.tensor(tensor).data() + tile * kind.slots();
  if (options_.transform == "dct") {
    tensor::SoonNeeded soon;
    if (tile + 1 < shape.tiles) {
      const TilePlace next = tiles_.place(tensor, tile + 1);
      soon = {gradients.all().data() + next.offset, next.stride};
    }
    kind.dct.accumulate(gradient, place.stride, blend, momentum, workspace.transform.get(), soon);
  } else {
    blend_tile(gradient, place.stride, kind, blend, momentum);
  }
  const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
  const int taken = workspace.top_k[tiles_.kind_index(tensor)].take(
      momentum, sent_.slots.data() + first, sent_.values.data() + first);
  sent_.counts[static_cast<size_t>(shape.first_tile + tile)] = static_cast<uint32_t>(taken);
}

// With feedback, what the receivers will not get goes back to where it was taken from.
void DistroEncoder::quantise_tensor(size_t tensor) {
  const codec::SparseShape& shape = tiles_.shapes()[tensor];
  const auto begin = sent_.values.begin() + shape.first_kept;
  if (options_.feedback) {
    std::copy_n(begin, shape.tiles * shape.kept, exact_.begin() + shape.first_kept);
  }
  codec::quantise(shape, tensor, coding_, sent_);
  if (!options_.feedback) return;
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

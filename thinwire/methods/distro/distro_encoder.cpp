#include "thinwire/methods/distro/distro_encoder.h"

#include "thinwire/codec/top_k.h"

namespace thinwire::sync {

DistroEncoder::DistroEncoder(const method::DistroOptions& options, const codec::DistroTiles& tiles,
                             ThreadPool& threads)
    : options_(options),
      tiles_(tiles),
      threads_(threads),
      momentum_(tiles.layout()),
      sent_(tiles.shapes()),
      work_(codec::make_tile_work(options, tiles, tiles.layout(), threads)) {}

Bytes DistroEncoder::encode(const tensor::Arena& gradients, float gain,
                            const codec::PayloadId& id) {
  work_->take(gradients, gain, momentum_, sent_);
  threads_.for_each(static_cast<int64_t>(tiles_.shapes().size()), [&](int64_t index) {
    const auto tensor = static_cast<size_t>(index);
    codec::quantise(tiles_.shapes()[tensor], tensor, options_.values, sent_);
  });
  if (options_.feedback) work_->add_back(sent_, momentum_);
  Bytes payload;
  payload.reserve(static_cast<size_t>(
      method::distro_payload_bound(tiles_.plan(), value_bits(options_.values))));
  codec::begin_payload(id, payload);
  codec::encode_sparse(tiles_.shapes(), options_.values, sent_, threads_, payload);
  codec::seal_payload(payload);
  return payload;
}

Result<void> DistroEncoder::add_back(std::span<const uint8_t> payload, const codec::PayloadId& id,
                                     const Reduce& reduce) {
  const auto body = codec::open_payload(payload, id);
  if (!body) return tl::unexpected(body.error());
  auto done = codec::decode_sparse(tiles_.shapes(), options_.values, *body, sent_);
  if (!done || (reduce && !reduce(sent_))) return done;
  for (size_t tensor = 0; tensor < tiles_.shapes().size(); ++tensor) {
    const codec::SparseShape& shape = tiles_.shapes()[tensor];
    const method::TensorTiles& plan = tiles_.plan().tensors[tensor];
    const codec::TopK top_k(plan.tile_rows, plan.tile_columns, plan.kept);
    const std::span<float> momentum = momentum_.tensor(tensor);
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
      const size_t count = sent_.counts[static_cast<size_t>(shape.first_tile + tile)];
      for (size_t i = first; i < first + count; ++i) {
        const int64_t at = tile * shape.slots + top_k.position(sent_.slots[i]);
        momentum[static_cast<size_t>(at)] += sent_.values[i];
      }
    }
  }
  return done;
}

}  // namespace thinwire::sync

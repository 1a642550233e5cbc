#include "thinwire/sync/distro_encoder.h"

namespace thinwire::sync {
DistroEncoder::DistroEncoder(const method::DistroOptions& options, const codec::DistroTiles& tiles,
                             const tensor::Layout& layout, ThreadPool& threads)
    : options_(options),
      tiles_(tiles),
      threads_(threads),
      momentum_(layout),
      sent_(tiles.shapes()),
      work_(codec::make_tile_work(options, tiles, layout, threads)) {}

Bytes DistroEncoder::encode(const tensor::Arena& gradients, float gain,
                            const codec::PayloadId& id) {
  work_->take(gradients, gain, momentum_, sent_);
  threads_.for_each(static_cast<int64_t>(tiles_.shapes().size()), [&](int64_t index) {
    const auto tensor = static_cast<size_t>(index);
    codec::quantise(tiles_.shapes()[tensor], tensor, options_.values, sent_);
  });
  if (options_.feedback) work_->put_back(sent_, momentum_);
  Bytes payload;
  payload.reserve(static_cast<size_t>(
      method::distro_payload_bound(tiles_.plan(), value_bits(options_.values))));
  codec::begin_payload(id, payload);
  codec::encode_sparse(tiles_.shapes(), options_.values, sent_, threads_, payload);
  codec::seal_payload(payload);
  return payload;
}

}  // namespace thinwire::sync

#include <algorithm>

#include "thinwire/codec/sparse.h"

namespace thinwire::codec {

Magnitude magnitude_of(const SparseMessage& message, std::span<const SparseShape> shapes) {
  Magnitude magnitude;
  std::vector<float> values;
  for (size_t index = 0; index < message.segments().size(); ++index) {
    const SparseSegment& segment = message.segments()[index];
    int64_t count = 0;
    for (int64_t tile = 0; tile < segment.tiles; ++tile) {
      count += message.count(shapes[segment.tensor].first_tile + segment.first_tile + tile);
    }
    values.resize(static_cast<size_t>(count));
    message.read_values(index, 0, count, values.data());
    measure(values, magnitude);
  }
  return magnitude;
}

std::span<const float* const> SparseRows::expand(std::span<const SparseMessage> messages,
                                                 size_t segment, const SparseShape& shape,
                                                 int64_t tile) {
  const auto slots = static_cast<size_t>(shape.slots);
  rows_.assign(messages.size() * slots, 0.0f);
  received_.resize(static_cast<size_t>(shape.kept));
  places_.clear();
  for (size_t m = 0; m < messages.size(); ++m) {
    const uint32_t count = messages[m].count(shape.first_tile + tile);
    messages[m].read_values(segment, read_[m], count, received_.data());
    read_[m] += count;
    float* const row = rows_.data() + m * slots;
    const uint16_t* const at = messages[m].slots(shape.first_kept + tile * shape.kept);
    for (uint32_t i = 0; i < count; ++i) row[at[i]] = received_[i];
    places_.push_back(row);
  }
  return places_;
}

}  // namespace thinwire::codec

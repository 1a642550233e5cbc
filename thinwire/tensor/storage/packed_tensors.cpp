#include <algorithm>

#include "thinwire/base/number_format.h"
#include "thinwire/tensor/kernels/number_formats.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::tensor {
namespace {

std::vector<int64_t> begins_of(const Layout& layout, WeightFormat format) {
  std::vector<int64_t> begins = {0};
  for (const TensorSpec& tensor : layout.specs()) {
    begins.push_back(begins.back() + weight_bytes(format_of(tensor, format), tensor.count()));
  }
  return begins;
}

}  // namespace

PackedTensors::PackedTensors(const Layout& layout, WeightFormat format,
                             const std::shared_ptr<Offload>& offload)
    : layout_(&layout),
      format_(format),
      begins_(begins_of(layout, format)),
      memory_(begins_.back(), offload) {
  if (offload == nullptr) std::fill_n(memory_.data(), memory_.bytes(), uint8_t{0});
  for (size_t i = 0; i < layout.size(); ++i) {
    const TensorSpec& tensor = layout.specs()[i];
    const bool encoded = format_of(tensor, format) == format;
    matrices_.push_back(encoded ? EncodedMatrix{at(i), tensor.shape[0], tensor.shape[1], format}
                                : EncodedMatrix());
  }
}

size_t PackedTensors::containing(int64_t offset) const {
  size_t low = 0, high = layout_->size();
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    (layout_->offset(middle) <= offset ? low : high) = middle;
  }
  return low;
}

std::span<const uint8_t> PackedTensors::memory(int64_t offset, int64_t count) const {
  const size_t index = containing(offset);
  if (matrices_[index].encoded != nullptr) {
    return {matrices_[index].encoded, static_cast<size_t>(size(index))};
  }
  const auto* const begin = reinterpret_cast<const uint8_t*>(bf16_at(offset));
  return {begin, static_cast<size_t>(count) * sizeof(Bf16)};
}

void PackedTensors::set(size_t index, std::span<const float> values) {
  if (matrices_[index].encoded != nullptr) return encode(format_, values, at(index));
  round_to_nearest(values.data(), static_cast<int64_t>(values.size()),
                   reinterpret_cast<Bf16*>(at(index)));
}

void PackedTensors::copy(size_t index, const PackedTensors& from) {
  std::copy_n(from.memory_.data() + begins_[index], size(index), at(index));
}

void PackedTensors::read(int64_t offset, std::span<float> to) const {
  const size_t index = containing(offset);
  const auto count = static_cast<int64_t>(to.size());
  const EncodedMatrix& matrix = matrices_[index];
  if (matrix.encoded == nullptr) return widen(bf16_at(offset), count, to.data());
  const EncodedMatrix one_row = {matrix.encoded, 1, matrix.rows * matrix.columns, format_};
  decode(one_row, 0, 1, offset - layout_->offset(index), count, to.data());
}

const Bf16* PackedTensors::bf16_at(int64_t offset) const {
  const size_t index = containing(offset);
  const auto* const first = reinterpret_cast<const Bf16*>(memory_.data() + begins_[index]);
  return first + (offset - layout_->offset(index));
}

std::span<const EncodedMatrix> PackedTensors::matrices_at(int64_t offset, int64_t rows) const {
  const size_t first = containing(offset);
  if (matrices_[first].encoded == nullptr) return {};
  size_t count = 0;
  for (; rows > 0; ++count) rows -= matrices_[first + count].rows;
  return std::span(matrices_).subspan(first, count);
}

}  // namespace thinwire::tensor

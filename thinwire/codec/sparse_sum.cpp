#include <algorithm>
#include <utility>

#include "thinwire/codec/sparse.h"
#include "thinwire/codec/top_k.h"

namespace thinwire::codec {

SparseSum::SparseSum(const SparseSumForm& form, ThreadPool& threads)
    : threads_(threads),
      sent_shapes_(shapes_of(form.sent)),
      shapes_(shapes_of(form.kept)),
      values_(form.values),
      mean_(form.mean),
      message_(sent_shapes_, form.sent_values),
      kept_(shapes_),
      guesses_(kept_.counts.size()) {
  int64_t slots = 0;
  for (const SparseShape& shape : shapes_) {
    places_.push_back(slots);
    slots += shape.tiles * shape.slots;
  }
  sums_.resize(static_cast<size_t>(slots));
  weights_.resize(sums_.size());
}

void SparseSum::begin() {
  std::ranges::fill(sums_, 0.0f);
  std::ranges::fill(weights_, 0.0f);
  all_ = 0;
}

Result<void> SparseSum::add(std::span<const uint8_t> message, float weight) {
  auto opened = message_.open(message);
  if (!opened) return opened;
  std::vector<Result<void>> decoded(static_cast<size_t>(threads_.size()));
  threads_.for_ranges(static_cast<int64_t>(message_.segments().size()), 1,
                      [&](int64_t begin, int64_t end, int thread) {
                        const auto first = static_cast<size_t>(begin);
                        const auto last = static_cast<size_t>(end);
                        auto& done = decoded[static_cast<size_t>(thread)];
                        done = message_.decode(first, last);
                        if (!done) return;
                        for (size_t segment = first; segment < last; ++segment) {
                          add_segment(segment, weight);
                        }
                      });
  all_ += weight;
  const auto failed = std::ranges::find_if(decoded, [](const auto& done) { return !done; });
  return failed == decoded.end() ? Result<void>() : *failed;
}

void SparseSum::add_segment(size_t segment, float weight) {
  const SparseSegment& part = message_.segments()[segment];
  const SparseShape& shape = sent_shapes_[part.tensor];
  std::vector<float> values(static_cast<size_t>(shape.kept));
  int64_t read = 0;
  for (int64_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
    const uint32_t count = message_.count(shape.first_tile + tile);
    const uint16_t* const slots = message_.slots(shape.first_kept + tile * shape.kept);
    message_.read_values(segment, read, count, values.data());
    read += count;
    const size_t at = place(part.tensor, tile);
    for (uint32_t i = 0; i < count; ++i) {
      sums_[at + slots[i]] += weight * values[i];
      weights_[at + slots[i]] += weight;
    }
  }
}

Bytes SparseSum::finish() {
  threads_.for_each(static_cast<int64_t>(shapes_.size()), [&](int64_t index) {
    const auto tensor = static_cast<size_t>(index);
    const SparseShape& shape = shapes_[tensor];
    TopK top_k(1, shape.slots, shape.kept);
    for (int64_t tile = 0; tile < shape.tiles; ++tile) keep_tile(tensor, tile, top_k);
    quantise(shape, tensor, values_, kept_);
  });
  Bytes message;
  encode_sparse(shapes_, values_, kept_, threads_, message);
  return message;
}

void SparseSum::keep_tile(size_t tensor, int64_t tile, TopK& top_k) {
  const SparseShape& shape = shapes_[tensor];
  const auto index = static_cast<size_t>(shape.first_tile + tile);
  const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
  const size_t at = place(tensor, tile);
  uint16_t* const slots = kept_.slots.data() + first;
  float* const values = kept_.values.data() + first;
  const int count = top_k.take(sums_.data() + at, slots, values, guesses_[index]);
  kept_.counts[index] = static_cast<uint32_t>(count);
  for (int i = 0; i < count; ++i) {
    values[i] /= mean_ == method::SlotMean::kOfSenders ? weights_[at + slots[i]] : all_;
  }
}

bool keep_left_out(std::span<const SparseShape> sent_shapes, std::span<const SparseShape> kept,
                   const SparseMessage& sum, SparseTiles& sent) {
  bool any = false;
  for (size_t tensor = 0; tensor < sent_shapes.size(); ++tensor) {
    const SparseShape& shape = sent_shapes[tensor];
    const SparseShape& of_sum = kept[tensor];
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      uint32_t& count = sent.counts[static_cast<size_t>(shape.first_tile + tile)];
      const uint32_t in_sum = sum.count(of_sum.first_tile + tile);
      const uint32_t all = count;
      count = 0;
      if (std::cmp_less(in_sum, of_sum.kept)) continue;
      const std::span slots(sum.slots(of_sum.first_kept + tile * of_sum.kept), in_sum);
      const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
      for (size_t i = first; i < first + all; ++i) {
        if (std::ranges::binary_search(slots, sent.slots[i])) continue;
        sent.slots[first + count] = sent.slots[i];
        sent.values[first + count] = sent.values[i];
        ++count;
      }
      any |= count > 0;
    }
  }
  return any;
}

}  // namespace thinwire::codec

// What tensors are: their names, their shapes, and where they are in memory.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "thinwire/base/number_format.h"

namespace thinwire {

enum class DType : uint8_t { kF32, kBf16, kI32, kI64, kU8, kF16 };
enum class Device : uint8_t { kCpu, kCuda };

using Shape = std::vector<int64_t>;

inline int64_t element_count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

inline int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kI64:
      return 8;
    case DType::kF16:
    case DType::kBf16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

// What a parameter is for; optimizers, weight decay and payloads treat these differently.
enum class TensorRole : uint8_t {
  kEmbedding,  // [vocabulary, width], or a table of positions
  kMatrix,     // of a matrix product inside a block
  kNorm,       // the scale or the offset of a norm
  kBias,       // added to a product's outputs
  kHead,       // [vocabulary, width], unless tied to the embedding; matrices of a classifier
};

// Weight decay does not apply to norms and biases.
constexpr bool decays(TensorRole role) {
  return role != TensorRole::kNorm && role != TensorRole::kBias;
}

// TensorSpec::layer of tensors outside the blocks: those that turn tokens into the blocks' input,
// besides tables (which say so by their role), and all others.
inline constexpr int kEmbeddingLayer = -2;
inline constexpr int kNoLayer = -1;

// One parameter of a model before any memory exists for it.
struct TensorSpec {
  std::string name;  // Hugging Face name
  Shape shape;       // row-major; matrices are [out features, in features]
  TensorRole role = TensorRole::kMatrix;
  int layer = kNoLayer;  // its transformer block, from 0 on; else as above

  int64_t count() const { return element_count(shape); }
  // Whether weight decay applies to it.
  bool decays() const { return thinwire::decays(role); }
  // A matrix inside the transformer blocks; some optimizers have a separate update for these.
  bool is_hidden_matrix() const { return role == TensorRole::kMatrix; }
  // Whether it belongs to what turns tokens into the blocks' input.
  bool is_of_embedding() const {
    return role == TensorRole::kEmbedding || layer == kEmbeddingLayer;
  }
  // Whether it has one row per token of the vocabulary, or in an encoder also per position or
  // class.
  bool is_vocabulary_sized() const {
    return role == TensorRole::kEmbedding || role == TensorRole::kHead;
  }
};

// The format of a tensor among weights that are kept in `format`.
inline WeightFormat format_of(const TensorSpec& tensor, WeightFormat format) {
  const bool other = is_encoded(format) && !tensor.is_hidden_matrix();
  return other ? WeightFormat::kBf16 : format;
}

// A dense row-major tensor somewhere in memory; owns nothing.
struct TensorView {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;

  int64_t count() const { return element_count(shape); }
  int64_t bytes() const { return count() * dtype_bytes(dtype); }
};

}  // namespace thinwire

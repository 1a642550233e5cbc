// A piece of an optimizer's state of one tensor, in whichever number format it is kept
// (optim.state). Arithmetic on it is fp32: a part is read, changed, and stored again, so that a
// pass over a tensor needs fp32 memory for one part at a time.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/bf16.h"
#include "thinwire/base/number_format.h"
#include "thinwire/base/threads.h"
#include "thinwire/tensor/kernels/number_formats.h"

namespace thinwire::optim {

// Elements of a tensor that are changed at a time, so that they stay in the L1 cache. A multiple of
// kStateBlock.
inline constexpr int64_t kPiece = 1024;

// Refers to memory of the optimizer; cheap to copy. Different parts may be used by different
// threads.
class StateValues {
 public:
  // Determines, together with the step, the random bits with which a tensor is rounded.
  struct Randomness {
    uint64_t seed = 0;  // of the run
    uint64_t kind = 0;  // the piece
    uint64_t tensor = 0;
  };

  // fp32, used in place.
  StateValues(std::span<float> values)  // NOLINT(google-explicit-constructor): it is these values
      : size_(static_cast<int64_t>(values.size())), exact_(values.data()) {}
  StateValues(std::span<Bf16> values, const Randomness& randomness)
      : format_(StateFormat::kBf16),
        size_(static_cast<int64_t>(values.size())),
        bf16_(values.data()),
        randomness_(randomness) {}
  // state_blocks(size) blocks of codes and exponents.
  StateValues(tensor::BlockCode code, int64_t size, uint8_t* codes, uint8_t* exponents,
              const Randomness& randomness)
      : format_(StateFormat::k8Bit),
        code_(code),
        size_(size),
        codes_(codes),
        exponents_(exponents),
        randomness_(randomness) {}

  int64_t size() const { return size_; }
  bool is_exact() const { return format_ == StateFormat::kF32; }
  // The values themselves, of pieces that are always kept in fp32 (method::StateKind::kExact).
  operator std::span<float>() const {  // NOLINT(google-explicit-constructor): pieces are spans
    assert(is_exact());
    return {exact_, static_cast<size_t>(size_)};
  }
  float* data() const { return std::span<float>(*this).data(); }
  float& operator[](size_t index) const { return std::span<float>(*this)[index]; }

  // The values [at, at + count), `at` a multiple of kStateBlock: in place if they are kept in fp32,
  // else in `scratch`.
  float* read(int64_t at, int64_t count, float* scratch) const;
  // Stores what read() returned, as changed since, rounded with the random bits of `step`. Throws
  // Error if a value cannot be encoded because it is not finite.
  void keep(int64_t at, int64_t count, const float* values, uint64_t step) const;

  // The same for all values, on all threads.
  std::vector<float> read_all(ThreadPool& threads) const;
  void keep_all(std::span<const float> values, uint64_t step, ThreadPool& threads) const;

 private:
  StateFormat format_ = StateFormat::kF32;
  tensor::BlockCode code_ = tensor::BlockCode::kSigned;
  int64_t size_ = 0;
  float* exact_ = nullptr;
  Bf16* bf16_ = nullptr;
  uint8_t* codes_ = nullptr;
  uint8_t* exponents_ = nullptr;
  Randomness randomness_;
};

// A part of at most kPiece values while it is changed.
class StatePart {
 public:
  StatePart(const StateValues& from, int64_t at, int64_t count)
      : from_(from), at_(at), count_(count), values_(from.read(at, count, scratch_)) {}
  StatePart(const StatePart&) = delete;
  StatePart& operator=(const StatePart&) = delete;

  float* values() { return values_; }
  void keep(uint64_t step) const { from_.keep(at_, count_, values_, step); }

 private:
  const StateValues& from_;
  int64_t at_, count_;
  alignas(64) float scratch_[kPiece];
  float* values_;
};

}  // namespace thinwire::optim

// The memory of an optimizer's state. Its layout follows from the optimizer's spec alone, so that
// the memory used is the memory predicted.
#pragma once

#include <cassert>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/half.h"
#include "thinwire/base/named_span.h"
#include "thinwire/base/number_format.h"
#include "thinwire/base/offload.h"
#include "thinwire/base/threads.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/tensor/kernels/number_formats.h"
#include "thinwire/tensor/kernels/portable_formats.h"
#include "thinwire/tensor/storage/aligned_buffer.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::optim {

// A piece of an optimizer's state of one tensor, in whichever number format it is kept
// (optim.state). Arithmetic on it is fp32: a part is read, changed, and stored again, so that a
// pass over a tensor needs fp32 memory for one part at a time.

// Elements of a tensor that are changed at a time, so that they stay in the L1 cache. A multiple of
// kStateBlock.
inline constexpr int64_t kPiece = 1024;

// Throws the Error for a value that cannot be encoded because it is not finite.
[[noreturn]] void throw_not_finite();

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

// The values of a piece in the memory of a device.
struct DevicePiece {
  float* exact = nullptr;  // null if they are kept in fewer bits than fp32
  tensor::CodedPiece coded = {};
};

// E.g. "adamw.m"; its agreement holds if all replicas are fed the same gradients. With 8 bits the
// codes have this name and the exponents of their blocks "adamw.m.exponents".
using OptimizerState = StateTensor;

// Initially zero, and only of the tensors that are updated here. All pieces with the same name are
// next to each other, in the order of the parameters and in the format given by the options.
class StateMemory {
 public:
  StateMemory(const method::OptimizerOptions& options, const tensor::Layout& params);

  // The piece with this index in the list that OptimizerSpec::state gives for the tensor.
  StateValues piece(size_t tensor, size_t index);
  // The same where only `count` values from `begin` on, a multiple of kStateBlock, will be used.
  StateValues piece(size_t tensor, size_t index, int64_t begin, int64_t count);

  // Whether all values are in memory, so that they may have a copy on a device.
  bool can_mirror() const { return !offload_; }
  // Adds the copy (once; later calls do nothing). Throws Error if the device lacks memory.
  void mirror_on(const tensor::DevicePlace& device);
  // The values of a piece there, to be changed in the step of this number.
  DevicePiece device_piece(size_t tensor, size_t index, uint64_t step);

  std::vector<OptimizerState> all();
  void clear();

  // The memory of a tensor's pieces: the values of each and, where it is kept in 8 bits, their
  // exponents, with the gaps behind them.
  std::vector<std::span<uint8_t>> memory_of(size_t tensor);
  size_t bytes() const;

 private:
  // Sizes and offsets are in elements, gaps included.
  struct Group {
    std::string_view name;
    Agreement agreement;
    method::StateKind kind;
    StateFormat format;
    int64_t size = 0;
    tensor::AlignedBuffer<uint8_t> values = {};     // fp32, bf16 or codes
    tensor::AlignedBuffer<uint8_t> exponents = {};  // of the codes' blocks
    tensor::TwoSided sides = {};                    // of the values
    tensor::TwoSided exponent_sides = {};           // likewise
  };
  struct Place {
    size_t group;
    int64_t offset;
    int64_t size;
  };

  void allocate(Group& group) const;
  static void use_host(const Group& group);
  static tensor::BlockCode code_of(const Group& group);
  void touch(const Group& group, int64_t offset, int64_t count) const;

  uint64_t seed_;
  std::shared_ptr<Offload> offload_;  // null: in memory
  std::deque<Group> groups_;
  std::vector<std::vector<Place>> places_;  // by tensor: its pieces
};

}  // namespace thinwire::optim

// Payloads of tensors of which only some slots of each tile are sent: the slots' numbers, in a Rice
// code, and their values in one of five number formats. docs/formats.md describes every byte.
//
// The slots of a tile are strictly ascending. Zero values are not sent, so a tile may have fewer
// than `kept`. Messages are cut into segments that are encoded separately, so that several threads
// can share a message; its bytes do not depend on how many.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/payload_format.h"
#include "thinwire/base/threads.h"
#include "thinwire/codec/aggregation.h"
#include "thinwire/codec/top_k.h"
#include "thinwire/method/tiles.h"

namespace thinwire::codec {

class BitReader;

// One tensor: `tiles` tiles of `slots` slots (at most 65536), of which at most `kept` are sent.
struct SparseShape {
  int64_t tiles = 0;
  int slots = 0;
  int kept = 0;
  int64_t first_tile = 0;  // its index in the arrays of SparseTiles
  int64_t first_kept = 0;
};

// The shapes of every tensor, or part of one, in a plan.
std::vector<SparseShape> shapes_of(const method::TilePlan& plan);

// Tiles of one tensor that are encoded together: as many as together send at most 4096 slots, and
// at least one.
struct SparseSegment {
  size_t tensor = 0;
  int64_t first_tile = 0;  // within the tensor
  int64_t tiles = 0;
};
std::vector<SparseSegment> cut_segments(std::span<const SparseShape> shapes);

// What one member sends for all tensors. Tile t of a tensor has count[first_tile + t] entries,
// which begin at first_kept + t * kept in `slots` and `values`.
struct SparseTiles {
  explicit SparseTiles(std::span<const SparseShape> shapes);

  std::vector<uint32_t> counts;  // by tile
  std::vector<uint16_t> slots;   // by kept slot, ascending within its tile
  std::vector<float> values;     // by kept slot
  std::vector<float> scales;     // by tensor; 0 if the format has none; kTwoBit: the lower one
  std::vector<float> highs;      // by tensor; kTwoBit: the higher magnitude, or 0
};

// Replaces the values of tensor `index` by what a receiver decodes from `format`, and sets its
// scale. Finite values only. bf16 rounds to nearest even; int8: scale = bf16(max |c| / 127), q = c
// / scale rounded half to even; 1 bit: scale = bf16(mean |c|), q = the sign; 2 bits: as below.
void quantise(const SparseShape& shape, size_t index, ValueFormat format, SparseTiles& tiles);
// For tensors first, first + 1 ... that share their two magnitudes: bf16 of the mean |c| of those
// values that are at most the mean of all, and of those that are above it.
void quantise_two_bits(std::span<const SparseShape> shapes, size_t first, SparseTiles& tiles);

// Appends the message of all tensors; values must be quantised.
void encode_sparse(std::span<const SparseShape> shapes, ValueFormat format,
                   const SparseTiles& tiles, ThreadPool& threads, Bytes& out);
void encode_sparse(std::span<const SparseShape> shapes, ValueFormat format,
                   const SparseTiles& tiles, Bytes& out);

// A received message: its slots are decoded, its values stay in their format, because a receiver of
// many messages would otherwise spend its time writing and reading them.
class SparseMessage {
 public:
  // The shapes must outlive the message.
  SparseMessage(std::span<const SparseShape> shapes, ValueFormat format);

  // Finds the segments of what encode_sparse wrote. `bytes` must stay valid until they are read.
  Result<void> open(std::span<const uint8_t> bytes);
  // Reads segments [begin, end) of an opened message; threads may read different ones. Any bytes
  // give slots in range and strictly ascending with finite values, or kCorruptPayload.
  Result<void> decode(size_t begin, size_t end);

  std::span<const SparseSegment> segments() const { return segments_; }
  // For tile first_tile + t, as in SparseTiles, once its segment is decoded.
  uint32_t count(int64_t tile) const { return counts_[static_cast<size_t>(tile)]; }
  const uint16_t* slots(int64_t first_kept) const { return slots_.data() + first_kept; }
  float scale(size_t tensor) const { return scales_[tensor]; }
  float high(size_t tensor) const { return highs_[tensor]; }
  // `count` values of a decoded segment, from its entry `first` on.
  void read_values(size_t segment, int64_t first, int64_t count, float* out) const;

 private:
  struct Part {
    std::span<const uint8_t> bytes;
    int parameter = 0;
    bool partial = false;             // some tile has fewer than `kept`
    std::span<const uint8_t> values;  // once decoded
  };

  Result<void> decode_one(size_t index);
  // Decodes this segment and the next side by side; false if that is not possible.
  bool decode_pair(size_t index);
  // Checks what follows the `total` slots, and finds the values there.
  Result<void> finish(size_t index, BitReader& reader, int64_t total);
  uint16_t* slots_of(const SparseSegment& segment);
  void set_counts(const SparseSegment& segment);

  std::span<const SparseShape> shapes_;
  ValueFormat format_;
  std::vector<SparseSegment> segments_;
  std::vector<Part> parts_;  // by segment
  std::vector<uint32_t> counts_;
  std::vector<uint16_t> slots_;
  std::vector<float> scales_;
  std::vector<float> highs_;
};

// Reads what encode_sparse wrote into `tiles`, made for the same shapes; errors as above.
Result<void> decode_sparse(std::span<const SparseShape> shapes, ValueFormat format,
                           std::span<const uint8_t> bytes, SparseTiles& tiles);

// Sparse messages as dense rows of values, zeros included, for code that compares members
// coordinate by coordinate (codec/aggregation.h).

// The magnitude of all values of a message whose segments are decoded.
Magnitude magnitude_of(const SparseMessage& message, std::span<const SparseShape> shapes);

// One tile of several messages. One object per thread: it owns the rows.
class SparseRows {
 public:
  // Before the tiles of a segment, which come in order.
  void begin(size_t messages) { read_.assign(messages, 0); }
  // What each message sends of tile `tile` of the segment's tensor, as shape.slots values. All
  // messages are decoded. Valid until the next call.
  std::span<const float* const> expand(std::span<const SparseMessage> messages, size_t segment,
                                       const SparseShape& shape, int64_t tile);

 private:
  std::vector<int64_t> read_;    // by message: entries of the segment used so far
  std::vector<float> received_;  // of one message and tile
  std::vector<float> rows_;
  std::vector<const float*> places_;
};

// The mean of several messages as one message, in an encoding of its own, so that a receiver needs
// one message however many members there are. In the slots of a tile it is
//   S = sum of weight * value      in fp32, in the order of the messages
//   W = sum of the weights         of those that sent the slot, or of all
// of which the slots with the largest |S| are kept, as S / W: global top-k (Shi et al. 2019, "A
// Distributed Synchronous SGD Algorithm with Global Top-k Sparsification for Low Bandwidth
// Networks", arXiv 1901.04359).

// What is added up, and how the result is encoded. Both plans have the same tiles.
struct SparseSumForm {
  method::TilePlan sent;
  ValueFormat sent_values = ValueFormat::kF32;
  method::TilePlan kept;  // of the sum: as many slots of each tile at most
  ValueFormat values = ValueFormat::kF32;
  method::SlotMean mean = method::SlotMean::kOfSenders;
};

// The bits depend neither on the number of threads nor on the instruction set. 8 bytes a slot.
class SparseSum {
 public:
  // The threads must outlive it.
  SparseSum(const SparseSumForm& form, ThreadPool& threads);

  // Sets the sum to zero.
  void begin();
  // Adds a message of weight > 0. After a failure the sum is of no use until the next begin().
  Result<void> add(std::span<const uint8_t> message, float weight);
  // The mean as encode_sparse writes it; begin() comes before the next add().
  Bytes finish();

 private:
  void add_segment(size_t segment, float weight);
  void keep_tile(size_t tensor, int64_t tile, TopK& top_k);
  size_t place(size_t tensor, int64_t tile) const {
    return static_cast<size_t>(places_[tensor] + tile * shapes_[tensor].slots);
  }

  ThreadPool& threads_;
  const std::vector<SparseShape> sent_shapes_;
  const std::vector<SparseShape> shapes_;
  const ValueFormat values_;
  const method::SlotMean mean_;
  SparseMessage message_;
  std::vector<int64_t> places_;  // by tensor: of its first slot in the arrays below
  std::vector<float> sums_;
  std::vector<float> weights_;  // of the senders of a slot
  float all_ = 0;               // the sum of all weights
  SparseTiles kept_;
  std::vector<uint32_t> guesses_;  // by tile; see TopK::take
};

// Reduces what a member sent to what a sum leaves out of it: entries of tiles in which the sum has
// as many slots as it may, and whose slots are not among these. `sum`: decoded, of `kept` shapes.
// Returns whether anything is left.
bool keep_left_out(std::span<const SparseShape> sent_shapes, std::span<const SparseShape> kept,
                   const SparseMessage& sum, SparseTiles& sent);

}  // namespace thinwire::codec

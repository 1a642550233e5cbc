// What the writer and the reader of sparse payloads share: constants of their format
// (docs/formats.md), and bit streams, in which bits fill bytes from the least significant bit up.
// Both work on 64-bit words.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "thinwire/base/payload_format.h"
#include "thinwire/codec/sparse.h"

// Inlined into functions that are compiled for several instruction sets.
#define THINWIRE_CODEC_INLINE inline __attribute__((always_inline))

namespace thinwire::codec {

inline constexpr int kMaxSlotBits = 16;
inline constexpr int kMaxCountBits = 16;

// A segment's entry in the table: bytes, Rice parameter, flag.
inline constexpr int kSegmentSizeBits = 27;
inline constexpr uint32_t kPartialTiles = 1u << 31;

// Bits of the slot count of a tile that has fewer slots than are kept.
inline int bits_of_count(const SparseShape& shape) {
  return std::bit_width(static_cast<unsigned>(shape.kept - 1));
}

// Number of bf16 scales per tensor.
inline int scales_of(ValueFormat format) {
  if (format == ValueFormat::kTwoBit) return 2;
  return format == ValueFormat::kInt8 || format == ValueFormat::kOneBit ? 1 : 0;
}

// Writes into a buffer that must extend 8 bytes beyond what the bits need.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* out) : out_(out) {}

  // The low `count` bits of value; its other bits must be zero. count <= 63.
  void put(uint64_t value, int count) {
    word_ |= value << used_;
    used_ += count;
    if (used_ < 64) return;
    std::memcpy(out_, &word_, 8);
    out_ += 8;
    used_ -= 64;
    word_ = used_ == 0 ? 0 : value >> (count - used_);
  }

  // `value >> parameter` zeros, a one, then the low `parameter` bits of value; parameter <= 15.
  void put_rice(uint32_t value, int parameter) {
    uint32_t quotient = value >> parameter;
    for (; quotient >= 32; quotient -= 32) put(0, 32);
    const uint64_t low = value & ((1u << parameter) - 1);
    put((low << 1 | 1) << quotient, static_cast<int>(quotient) + 1 + parameter);
  }

  // A value below `range` (1 <= range <= 65536) in truncated binary: with b bits for range - 1, the
  // first 2^b - range values take b - 1 bits, the others b, the last of which follows the rest.
  void put_below(uint32_t value, uint32_t range) {
    const int bits = std::bit_width(range - 1);
    const uint32_t short_codes = (1u << bits) - range;
    if (value < short_codes) return put(value, bits - 1);
    const uint32_t moved = value + short_codes;
    put(moved >> 1 | (moved & 1) << (bits == 0 ? 0 : bits - 1), bits);
  }

  // Writes what is left, with the last byte's unused bits zero; returns the end of what was
  // written.
  uint8_t* finish() {
    std::memcpy(out_, &word_, 8);
    return out_ + (used_ + 7) / 8;
  }

 private:
  uint8_t* out_;
  uint64_t word_ = 0;
  int used_ = 0;
};

// Reads zeros past the end of the input and remembers that it did.
class BitReader {
 public:
  explicit BitReader(std::span<const uint8_t> in) : in_(in) {}

  // count <= 32.
  THINWIRE_CODEC_INLINE uint32_t get(int count) {
    refill();
    const uint64_t bits = word_ & ((uint64_t{1} << count) - 1);
    skip(count);
    return static_cast<uint32_t>(bits);
  }

  // A Rice-coded value, parameter <= 15. Instead of a value above `limit`, which is at most 65536,
  // it may return any value above the limit and below 2^23.
  THINWIRE_CODEC_INLINE uint32_t get_rice(int parameter, uint32_t limit) {
    refill();
    uint32_t zeros = 0;
    while ((word_ & 0xffffffffu) == 0) [[unlikely]] {
      zeros += 32;
      skip(32);
      if (uint64_t{zeros} << parameter > limit || past_end()) return limit + 1;
      refill();
    }
    const int rest = std::countr_zero(word_);
    skip(rest + 1);
    const auto low = static_cast<uint32_t>(word_) & ((1u << parameter) - 1);
    skip(parameter);
    return (zeros + static_cast<uint32_t>(rest)) << parameter | low;
  }

  // The next N Rice-coded values, to be added up: value i is values[i]. Returns false and reads
  // nothing if they need more bits than are buffered; then get_rice() reads them one by one.
  template <int N>
  THINWIRE_CODEC_INLINE bool get_rices(int parameter, uint32_t (&values)[N]) {
    refill();
    uint64_t word = word_;
    int used = N * (1 + parameter);
    for (int i = 0; i < N; ++i) {
      const int rest = std::countr_zero(word);
      used += rest;
      word >>= rest & 63;
      const auto low = static_cast<uint32_t>(word >> 1) & ((1u << parameter) - 1);
      values[i] = static_cast<uint32_t>(rest) << parameter | low;
      word >>= 1 + parameter;
    }
    if (used > 56) [[unlikely]]
      return false;
    word_ = word;
    left_ -= used;
    return true;
  }

  // What put_below wrote.
  THINWIRE_CODEC_INLINE uint32_t get_below(uint32_t range) {
    const int bits = std::bit_width(range - 1);
    if (bits == 0) return 0;
    refill();
    const uint32_t short_codes = (1u << bits) - range;
    const auto head = static_cast<uint32_t>(word_ & ((uint64_t{1} << (bits - 1)) - 1));
    const auto last = static_cast<uint32_t>(word_ >> (bits - 1) & 1);
    skip(head < short_codes ? bits - 1 : bits);
    return head < short_codes ? head : (head << 1 | last) - short_codes;
  }

  // Bytes read so far, a partly read one included.
  THINWIRE_CODEC_INLINE size_t bytes() const { return static_cast<size_t>((place() + 7) / 8); }
  THINWIRE_CODEC_INLINE bool past_end() const { return place() > 8 * uint64_t{in_.size()}; }
  // Whether the bits left in the last byte that was begun are zero.
  bool clean_tail() {
    const int rest = static_cast<int>(-place() & 7);
    return get(rest) == 0;
  }

 private:
  THINWIRE_CODEC_INLINE uint64_t place() const {
    return 8 * uint64_t{at_} - static_cast<uint64_t>(left_);
  }
  THINWIRE_CODEC_INLINE void skip(int count) {
    word_ >>= count;
    left_ -= count;
  }

  // Makes at least 56 bits of the word valid; the bits above are zero or valid, too.
  THINWIRE_CODEC_INLINE void refill() {
    uint64_t next = 0;
    if (at_ + 8 <= in_.size()) [[likely]] {
      std::memcpy(&next, in_.data() + at_, 8);
    } else if (at_ < in_.size()) {
      std::memcpy(&next, in_.data() + at_, in_.size() - at_);
    }
    word_ |= next << left_;
    at_ += static_cast<size_t>((63 - left_) >> 3);
    left_ |= 56;
  }

  std::span<const uint8_t> in_;
  uint64_t word_ = 0;  // the next bits
  size_t at_ = 0;      // bytes taken into the word
  int left_ = 0;       // bits of the word that belong to those bytes
};

}  // namespace thinwire::codec

#undef THINWIRE_CODEC_INLINE

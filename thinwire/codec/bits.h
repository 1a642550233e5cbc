// Bit streams of payloads: bits fill bytes from the least significant one up. Writer and reader
// work on 64-bit words.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace thinwire::codec {

// Writes into memory that has 8 bytes more than the bits need.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* out) : out_(out) {}

  // The low `count` bits of value, whose other bits are zero; count <= 63.
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

  // Writes what is left; the last byte's unused bits are zero.
  void finish() { std::memcpy(out_, &word_, 8); }

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
  uint32_t get(int count) {
    const uint64_t bits = peek() & ((uint64_t{1} << count) - 1);
    at_ += static_cast<uint64_t>(count);
    return static_cast<uint32_t>(bits);
  }

  // A Rice-coded value; anything above `limit` may come back as any value above it.
  uint32_t get_rice(int parameter, uint32_t limit) {
    uint64_t bits = peek();
    uint32_t zeros = 0;
    while ((bits & 0xffffffffu) == 0) {
      zeros += 32;
      at_ += 32;
      if (uint64_t{zeros} << parameter > limit || past_end()) return limit + 1;
      bits = peek();
    }
    const int rest = std::countr_zero(bits);
    const uint64_t low = bits >> (rest + 1) & ((uint64_t{1} << parameter) - 1);
    at_ += static_cast<uint64_t>(rest + 1 + parameter);
    const uint64_t value = uint64_t{zeros + static_cast<uint32_t>(rest)} << parameter | low;
    return static_cast<uint32_t>(std::min<uint64_t>(value, uint64_t{limit} + 1));
  }

  bool past_end() const { return at_ > 8 * uint64_t{in_.size()}; }
  // Whether everything was read but for fewer than 8 bits, all zero.
  bool at_end() const {
    return at_ <= 8 * uint64_t{in_.size()} && (at_ + 7) / 8 == in_.size() && (peek() == 0);
  }

 private:
  // At least 57 bits from the current place on.
  uint64_t peek() const {
    const uint64_t byte = at_ / 8;
    uint64_t word = 0;
    if (byte + 8 <= in_.size()) {
      std::memcpy(&word, in_.data() + byte, 8);
    } else if (byte < in_.size()) {
      std::memcpy(&word, in_.data() + byte, in_.size() - byte);
    }
    return word >> (at_ % 8);
  }

  std::span<const uint8_t> in_;
  uint64_t at_ = 0;  // in bits
};

}  // namespace thinwire::codec

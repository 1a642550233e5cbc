// AMX's instructions in plain C++, for tests of what surrounds them on CPUs that lack them.
#pragma once

#include <cstring>

#include "thinwire/tensor/products/tiles_amx.h"

namespace thinwire::tensor {

class EmulatedAmx {
 public:
  static void prepare() { ready_ = true; }
  static void release() { ready_ = false; }

  template <int kRegister>
  static void zero() {
    fill(kRegister, 0);
  }
  template <int kRegister>
  static void load(const void* from, int64_t stride) {
    for (int64_t r = 0; r < kRows; ++r) {
      std::memcpy(registers_[kRegister][r], static_cast<const char*>(from) + r * stride, kRowBytes);
    }
  }
  template <int kRegister>
  static void store(void* to, int64_t stride) {
    for (int64_t r = 0; r < kRows; ++r) {
      std::memcpy(static_cast<char*>(to) + r * stride, registers_[kRegister][r], kRowBytes);
    }
  }
  template <int kSums, int kLeft, int kRight>
  static void multiply_add() {
    float left[kRows][2 * kRows], right[2 * kRows][kRows], sums[kRows][kRows];
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < 2 * kRows; ++j) {
        left[i][j] = to_float(value(kLeft, i, j));
        right[2 * i + j % 2][j / 2] = to_float(value(kRight, i, j));
      }
    }
    std::memcpy(sums, registers_[kSums], sizeof(sums));
    for (int64_t m = 0; m < kRows; ++m) {
      for (int64_t k = 0; k < 2 * kRows; ++k) {
        const float factor = left[m][k];
        float* const to = sums[m];
        for (int64_t n = 0; n < kRows; ++n) to[n] += factor * right[k][n];
      }
    }
    // Without prepare() the CPU refuses.
    if (!ready_) std::memset(sums, 0xff, sizeof(sums));
    std::memcpy(registers_[kSums], sums, sizeof(sums));
  }

  static void round(int64_t rows, int64_t columns, const float* sums, Bf16* to, int64_t stride) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) to[r * stride + c] = to_bf16(sums[r * kAmxPanel + c]);
    }
  }

  // After release() another program's work may be in the registers.
  static void leave() {
    release();
    for (int i = 0; i < kRegisters; ++i) fill(i, 0x7f);
  }

 private:
  static constexpr int kRegisters = 8;
  static constexpr int64_t kRows = 16, kRowBytes = 64;

  static void fill(int which, int byte) {
    std::memset(registers_[which], byte, sizeof(registers_[which]));
  }
  static Bf16 value(int which, int64_t row, int64_t column) {
    Bf16 out;
    std::memcpy(&out, registers_[which][row] + column * static_cast<int64_t>(sizeof(out)),
                sizeof(out));
    return out;
  }

  static inline thread_local bool ready_ = false;
  static inline thread_local char registers_[kRegisters][kRows][kRowBytes];
};

inline constexpr Bf16Tiles kEmulatedAmx = {
    {kAmxPanel, kAmxBlockRows, AmxTiles<EmulatedAmx>::multiply<float>, EmulatedAmx::leave},
    AmxTiles<EmulatedAmx>::multiply<Bf16>};

}  // namespace thinwire::tensor

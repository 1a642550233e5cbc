// Tiles of products in bf16 by AMX: two by two registers of sums, 32 rows and 32 columns, for which
// each step of 16 units of depth loads two registers of A and two of B and makes four products. A
// product takes 16 cycles and a load from the L1 cache 8, so that loads hide behind products where
// half a panel of B (32 KiB) stays there.
//
// Instructions is AmxInstructions of tiles_amx.cpp, or in tests a copy of them in plain C++, so
// that what surrounds them is tested on CPUs that lack them.
#pragma once

#include <algorithm>
#include <vector>

#include "thinwire/base/scratch.h"
#include "thinwire/tensor/products/gemm_packed.h"
#include "thinwire/tensor/products/tiles.h"

// Clang asks for it wherever the instructions are written; GCC does not mind.
#if defined(__x86_64__)
#define THINWIRE_AMX_TARGET [[gnu::target("amx-tile,amx-bf16")]]
#else
#define THINWIRE_AMX_TARGET
#endif

namespace thinwire::tensor {

// A register holds kAmxRows rows of 64 bytes: 16 sums in fp32, or 16 units of depth of A; of B it
// holds 16 units of depth of 16 columns.
inline constexpr int64_t kAmxRows = 16, kAmxColumns = 16, kAmxUnits = 16;
// The numbers of the registers: sums of rows r and columns c are in 2 r + c.
inline constexpr int kAmxLeft = 4, kAmxRight = 6;

template <typename Instructions>
class AmxTiles {
 public:
  // Tiles::multiply.
  static void multiply(int64_t rows, int64_t columns, int64_t units, LeftOperand<Bf16> A,
                       RightPanels<Bf16> B, OldSums old, float* C, int64_t ldc) {
    Instructions::prepare();
    const LeftOperand<Bf16> left = whole_tiles(rows, units, A);
    for (int64_t j = 0; j < columns; j += kPanelColumns, B.values += B.panel) {
      const Bf16* const last = last_units(units, B.values);
      const int64_t width = std::min(kPanelColumns, columns - j);
      for (int64_t c = 0; c < width; c += 2 * kAmxColumns) {
        for (int64_t r = 0; r < rows; r += 2 * kAmxRows) {
          const Part part = {std::min(2 * kAmxRows, rows - r),
                             std::min(2 * kAmxColumns, width - c),
                             units,
                             left.at(r),
                             B.values + 2 * c,
                             last == nullptr ? nullptr : last + 2 * c};
          const OldSums sums = {
              old.values == nullptr ? nullptr : old.values + r * old.stride + j + c, old.stride};
          add_part(part, sums, C + r * ldc + j + c, ldc);
        }
      }
    }
  }

  // Bf16Tiles::multiply_rounded.
  static void multiply_rounded(int64_t rows, int64_t columns, int64_t units, LeftOperand<Bf16> A,
                               RightPanels<Bf16> B, OldSums old, Bf16* C, int64_t ldc) {
    thread_local std::vector<float> buffer;
    float* const sums = scratch(buffer, rows * columns).data();
    multiply(rows, columns, units, A, B, old, sums, columns);
    round_sums(sums, rows, columns, 0, C, ldc);
  }

 private:
  // Up to 32 rows and columns of a product.
  struct Part {
    int64_t rows, columns, units;
    LeftOperand<Bf16> left;
    const Bf16* right;  // of a panel
    const Bf16* last;   // its last units, if they fill no register
  };

  static constexpr int64_t kRightStride = 2 * kPanelColumns;

  static int64_t whole(int64_t count, int64_t of) { return (count + of - 1) / of * of; }

  // A with its rows one behind another, as whole registers, with zeros where nothing is.
  static LeftOperand<Bf16> whole_tiles(int64_t rows, int64_t units, LeftOperand<Bf16> A) {
    if (A.unit == 2 && rows % kAmxRows == 0 && units % kAmxUnits == 0) return A;
    thread_local std::vector<Bf16> buffer;
    const int64_t stride = 2 * whole(units, kAmxUnits);
    const std::span<Bf16> to = scratch(buffer, whole(rows, kAmxRows) * stride);
    if (A.unit == 2) {
      for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(A.values + r * A.row, 2 * units, to.data() + r * stride);
      }
    } else {
      unpack_pairs(units, rows, A.values, A.unit, to.data(), stride);
    }
    for (int64_t r = 0; r < rows; ++r) {
      std::fill(to.begin() + r * stride + 2 * units, to.begin() + (r + 1) * stride, Bf16{});
    }
    std::fill(to.begin() + rows * stride, to.end(), Bf16{});
    return {to.data(), stride, 2};
  }

  // The units of a panel that fill no register, with zeros behind them; null if there are none.
  static const Bf16* last_units(int64_t units, const Bf16* panel) {
    const int64_t rest = units % kAmxUnits;
    if (rest == 0) return nullptr;
    thread_local std::vector<Bf16> buffer;
    const std::span<Bf16> to = scratch(buffer, kAmxUnits * kRightStride);
    const Bf16* const from = panel + (units - rest) * kRightStride;
    std::copy_n(from, rest * kRightStride, to.begin());
    std::fill(to.begin() + rest * kRightStride, to.end(), Bf16{});
    return to.data();
  }

  static void add_part(const Part& part, OldSums old, float* C, int64_t ldc) {
    const bool two_rows = part.rows > kAmxRows, two_columns = part.columns > kAmxColumns;
    if (two_rows) {
      return two_columns ? add_tiles<2, 2>(part, old, C, ldc) : add_tiles<2, 1>(part, old, C, ldc);
    }
    return two_columns ? add_tiles<1, 2>(part, old, C, ldc) : add_tiles<1, 1>(part, old, C, ldc);
  }

  template <int kDown, int kAcross>
  THINWIRE_AMX_TARGET static void add_tiles(const Part& part, OldSums old, float* C, int64_t ldc) {
    load_sums<0, kDown, kAcross>(part, old);
    const int64_t left_step = kAmxRows * part.left.row;
    int64_t i = 0;
    for (; i + kAmxUnits <= part.units; i += kAmxUnits) {
      add_products<kDown, kAcross>(part.left.values + 2 * i, part.left.row, left_step,
                                   part.right + i * kRightStride);
    }
    if (i < part.units) {
      add_products<kDown, kAcross>(part.left.values + 2 * i, part.left.row, left_step, part.last);
    }
    store_sums<0, kDown, kAcross>(part, C, ldc);
  }

  template <int kDown, int kAcross>
  THINWIRE_AMX_TARGET static void add_products(const Bf16* left, int64_t left_row,
                                               int64_t left_step, const Bf16* right) {
    Instructions::template load<kAmxRight>(right, kRightStride * sizeof(Bf16));
    Instructions::template load<kAmxLeft>(left, left_row * sizeof(Bf16));
    Instructions::template multiply_add<0, kAmxLeft, kAmxRight>();
    if constexpr (kAcross == 2) {
      Instructions::template load<kAmxRight + 1>(right + 2 * kAmxColumns,
                                                 kRightStride * sizeof(Bf16));
      Instructions::template multiply_add<1, kAmxLeft, kAmxRight + 1>();
    }
    if constexpr (kDown == 2) {
      Instructions::template load<kAmxLeft + 1>(left + left_step, left_row * sizeof(Bf16));
      Instructions::template multiply_add<2, kAmxLeft + 1, kAmxRight>();
      if constexpr (kAcross == 2) {
        Instructions::template multiply_add<3, kAmxLeft + 1, kAmxRight + 1>();
      }
    }
  }

  // The rows and columns that exist of the register kSum's 16 x 16 sums, and where they begin.
  template <int kSum>
  static constexpr int64_t kFirstRow = kSum / 2 * kAmxRows;
  template <int kSum>
  static constexpr int64_t kFirstColumn = kSum % 2 * kAmxColumns;

  template <int kSum, int kDown, int kAcross>
  THINWIRE_AMX_TARGET static void load_sums(const Part& part, OldSums old) {
    if constexpr (kSum < 4) {
      if constexpr (kSum / 2 < kDown && kSum % 2 < kAcross) load_sum<kSum>(part, old);
      load_sums<kSum + 1, kDown, kAcross>(part, old);
    }
  }

  template <int kSum, int kDown, int kAcross>
  THINWIRE_AMX_TARGET static void store_sums(const Part& part, float* C, int64_t ldc) {
    if constexpr (kSum < 4) {
      if constexpr (kSum / 2 < kDown && kSum % 2 < kAcross) store_sum<kSum>(part, C, ldc);
      store_sums<kSum + 1, kDown, kAcross>(part, C, ldc);
    }
  }

  template <int kSum>
  THINWIRE_AMX_TARGET static void load_sum(const Part& part, OldSums old) {
    if (old.values == nullptr) return Instructions::template zero<kSum>();
    const float* const from = old.values + kFirstRow<kSum> * old.stride + kFirstColumn<kSum>;
    const int64_t rows = std::min(kAmxRows, part.rows - kFirstRow<kSum>);
    const int64_t columns = std::min(kAmxColumns, part.columns - kFirstColumn<kSum>);
    if (rows == kAmxRows && columns == kAmxColumns) {
      return Instructions::template load<kSum>(from, old.stride * sizeof(float));
    }
    alignas(64) float tile[kAmxRows * kAmxColumns] = {};
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(from + r * old.stride, columns, tile + r * kAmxColumns);
    }
    Instructions::template load<kSum>(tile, kAmxColumns * sizeof(float));
  }

  template <int kSum>
  THINWIRE_AMX_TARGET static void store_sum(const Part& part, float* C, int64_t ldc) {
    float* const to = C + kFirstRow<kSum> * ldc + kFirstColumn<kSum>;
    const int64_t rows = std::min(kAmxRows, part.rows - kFirstRow<kSum>);
    const int64_t columns = std::min(kAmxColumns, part.columns - kFirstColumn<kSum>);
    if (rows == kAmxRows && columns == kAmxColumns) {
      return Instructions::template store<kSum>(to, ldc * sizeof(float));
    }
    alignas(64) float tile[kAmxRows * kAmxColumns];
    Instructions::template store<kSum>(tile, kAmxColumns * sizeof(float));
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(tile + r * kAmxColumns, columns, to + r * ldc);
    }
  }
};

}  // namespace thinwire::tensor

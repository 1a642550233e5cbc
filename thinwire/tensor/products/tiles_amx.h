// Tiles of products in bf16 by AMX: two by two registers of sums, 32 rows and 32 columns, for which
// each step of 16 units of depth loads two registers of A and two of B and makes four products. A
// product takes 16 cycles. The load of a register takes half of that from the L1 cache and about
// three times as long from the L2 cache, so that a step takes 64 cycles where a panel of B stays in
// the L1 cache, and about 90 where all comes from the L2 cache.
//
// Instructions is AmxInstructions of tiles_amx.cpp, or in tests a copy of them in plain C++, so
// that what surrounds them is tested on CPUs that lack them.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>

#include "thinwire/tensor/products/tiles.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

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

// Columns of a panel of B: those of a tile. Rows of wider panels, of which a tile reads a part,
// would share few of the L1 cache's sets.
inline constexpr int64_t kAmxPanel = 2 * kAmxColumns;
// Rows of A at a time.
inline constexpr int64_t kAmxBlockRows = 256;

template <typename Instructions>
class AmxTiles {
 public:
  // Tiles::multiply, and Bf16Tiles::multiply_rounded if Out is Bf16.
  template <typename Out>
  static void multiply(int64_t rows, int64_t columns, int64_t units, LeftOperand<Bf16> A,
                       RightPanels<Bf16> B, OldSums old, Out* C, int64_t ldc) {
    Instructions::prepare();
    const Left left = in_registers(rows, columns, units, A);
    for (int64_t j = 0; j < columns; j += kAmxPanel, B.values += B.panel) {
      const Bf16* const last = last_units(units, B.values);
      for (int64_t r = 0; r < rows; r += kTileRows) {
        const Part part = {std::min(kTileRows, rows - r),
                           std::min(kAmxPanel, columns - j),
                           units,
                           left.at(r),
                           B.values,
                           last};
        put_part(part, old.at(r, j), C + r * ldc + j, ldc);
      }
    }
  }

 private:
  static constexpr int64_t kTileRows = 2 * kAmxRows;
  static constexpr int64_t kLeftRow = 2 * kAmxUnits, kRightRow = 2 * kAmxPanel;

  // A with whole registers: kAmxUnits units of a row one behind another, the next ones `step`, the
  // next row `row` and the next tile's rows `tile` values further.
  struct Left {
    const Bf16* values;
    int64_t row, step, tile;

    Left at(int64_t first_row) const {
      return {values + first_row / kTileRows * tile, row, step, tile};
    }
  };

  // Up to 32 rows and columns of a product.
  struct Part {
    int64_t rows, columns, units;
    Left left;
    const Bf16* right;  // of a panel
    const Bf16* last;   // its last units, if they fill no register
  };

  // Memory that is used again and again; a register whose rows straddle lines takes twice as long.
  template <typename T>
  static T* aligned(AlignedBuffer<T>& buffer, int64_t count) {
    if (buffer.bytes() < count * sizeof(T)) buffer = AlignedBuffer<T>(count);
    return buffer.data();
  }

  static int64_t whole(int64_t count, int64_t of) { return (count + of - 1) / of * of; }

  // A where it is, if its registers are whole there and are not loaded so often, or from so few
  // rows, that their places in the L1 cache matter; or copied, with zeros where nothing is.
  static Left in_registers(int64_t rows, int64_t columns, int64_t units, LeftOperand<Bf16> A) {
    constexpr int64_t kFewLeftRows = 64, kFewLeftColumns = 256;
    const bool is_whole = A.unit == 2 && rows % kAmxRows == 0 && units % kAmxUnits == 0;
    const bool is_aligned =
        reinterpret_cast<uintptr_t>(A.values) % (kLeftRow * sizeof(Bf16)) == 0 &&
        A.row % kLeftRow == 0;
    if (is_whole && (rows <= kFewLeftRows || (columns <= kFewLeftColumns && is_aligned))) {
      return {A.values, A.row, kLeftRow, kTileRows * A.row};
    }
    thread_local AlignedBuffer<Bf16> buffer;
    const int64_t step = kTileRows * kLeftRow, tile = whole(units, kAmxUnits) / kAmxUnits * step;
    const int64_t count = whole(rows, kTileRows) / kTileRows * tile;
    Bf16* const all = aligned(buffer, count);
    if (rows % kAmxRows != 0 || units % kAmxUnits != 0) std::fill_n(all, count, Bf16{});
    Bf16* to = all;
    for (int64_t r = 0; r < rows; r += kTileRows, to += tile) {
      copy_tile(std::min(kTileRows, rows - r), units, A.at(r), to);
    }
    return {all, kLeftRow, step, tile};
  }

  static void copy_tile(int64_t rows, int64_t units, LeftOperand<Bf16> A, Bf16* to) {
    constexpr int64_t kStep = kTileRows * kLeftRow;
    const int64_t whole_units = units / kAmxUnits * kAmxUnits, rest = units - whole_units;
    Bf16* const last = to + whole_units / kAmxUnits * kStep;
    if (A.unit != 2) {
      for (int64_t u = 0; u < whole_units; u += kAmxUnits, to += kStep) {
        unpack_pairs(kAmxUnits, rows, A.values + u * A.unit, A.unit, to, kLeftRow);
      }
      if (rest > 0) {
        unpack_pairs(rest, rows, A.values + whole_units * A.unit, A.unit, last, kLeftRow);
      }
      return;
    }
    for (int64_t r = 0; r < rows; ++r) {
      const Bf16* const row = A.values + r * A.row;
      for (int64_t u = 0; u < whole_units; u += kAmxUnits) {
        std::memcpy(to + u / kAmxUnits * kStep + r * kLeftRow, row + 2 * u,
                    kLeftRow * sizeof(Bf16));
      }
      std::copy_n(row + 2 * whole_units, 2 * rest, last + r * kLeftRow);
    }
  }

  // The units of a panel that fill no register, with zeros behind them; null if there are none.
  static const Bf16* last_units(int64_t units, const Bf16* panel) {
    const int64_t rest = units % kAmxUnits;
    if (rest == 0) return nullptr;
    alignas(64) thread_local Bf16 to[kAmxUnits * kRightRow];
    std::copy_n(panel + (units - rest) * kRightRow, rest * kRightRow, to);
    std::fill(to + rest * kRightRow, std::end(to), Bf16{});
    return to;
  }

  // The lines of C come from far while the products are computed.
  template <typename Out>
  static void fetch(const Part& part, Out* C, int64_t ldc) {
    for (int64_t r = 0; r < part.rows; ++r, C += ldc) {
      __builtin_prefetch(C, 1);
      __builtin_prefetch(C + part.columns - 1, 1);
    }
  }

  static void put_part(const Part& part, OldSums old, float* C, int64_t ldc) {
    fetch(part, C, ldc);
    add_sums(part, old, C, ldc);
  }
  static void put_part(const Part& part, OldSums old, Bf16* C, int64_t ldc) {
    fetch(part, C, ldc);
    alignas(64) float sums[kTileRows * kAmxPanel];
    add_sums(part, old, sums, kAmxPanel);
    Instructions::round(part.rows, part.columns, sums, C, ldc);
  }

  static void add_sums(const Part& part, OldSums old, float* C, int64_t ldc) {
    const bool two_rows = part.rows > kAmxRows, two_columns = part.columns > kAmxColumns;
    if (two_rows) {
      return two_columns ? add_tiles<2, 2>(part, old, C, ldc) : add_tiles<2, 1>(part, old, C, ldc);
    }
    return two_columns ? add_tiles<1, 2>(part, old, C, ldc) : add_tiles<1, 1>(part, old, C, ldc);
  }

  template <int kDown, int kAcross>
  THINWIRE_AMX_TARGET static void add_tiles(const Part& part, OldSums old, float* C, int64_t ldc) {
    load_sums<0, kDown, kAcross>(part, old);
    const Bf16* left = part.left.values;
    int64_t i = 0;
    for (; i + kAmxUnits <= part.units; i += kAmxUnits, left += part.left.step) {
      add_products<kDown, kAcross>(left, part.left.row, part.right + i * kRightRow);
    }
    if (i < part.units) add_products<kDown, kAcross>(left, part.left.row, part.last);
    store_sums<0, kDown, kAcross>(part, C, ldc);
  }

  template <int kDown, int kAcross>
  THINWIRE_AMX_TARGET static void add_products(const Bf16* left, int64_t left_row,
                                               const Bf16* right) {
    const int64_t left_bytes = left_row * sizeof(Bf16), right_bytes = kRightRow * sizeof(Bf16);
    Instructions::template load<kAmxRight>(right, right_bytes);
    Instructions::template load<kAmxLeft>(left, left_bytes);
    Instructions::template multiply_add<0, kAmxLeft, kAmxRight>();
    if constexpr (kAcross == 2) {
      Instructions::template load<kAmxRight + 1>(right + 2 * kAmxColumns, right_bytes);
      Instructions::template multiply_add<1, kAmxLeft, kAmxRight + 1>();
    }
    if constexpr (kDown == 2) {
      Instructions::template load<kAmxLeft + 1>(left + kAmxRows * left_row, left_bytes);
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

// Tiles of 6 rows and 4 vectors of 16 columns: 24 sums in registers, for which each step of depth
// loads 4 vectors of B and 6 broadcast pairs of A. One of its 24 products starts in every cycle, so
// loads are hidden and a tile runs at 99 % of what the instruction allows (Zen 4).
#include "thinwire/tensor/products/bf16_tiles.h"

#if defined(__x86_64__)
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#define THINWIRE_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]
#endif

namespace thinwire::tensor {

#if defined(__x86_64__)
namespace {

constexpr int64_t kTileRows = 6;
constexpr int64_t kLanes = 16;
constexpr int64_t kVectors = kPairColumns / kLanes;

template <typename Out>
struct Tile {
  int64_t columns, pairs;
  PairOperand A;
  const Bf16* B;
  OldSums old;
  Out* C;
  int64_t ldc;
};

THINWIRE_TARGET inline void store(float* to, __mmask16 mask, __m512 sum) {
  _mm512_mask_storeu_ps(to, mask, sum);
}

THINWIRE_TARGET inline void store(Bf16* to, __mmask16 mask, __m512 sum) {
  _mm256_mask_storeu_epi16(to, mask, reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(sum)));
}

// One tile of kRows and as many columns as kCount vectors have, or a few less. The lines of C and
// of `old` are fetched while the products are computed.
template <int kRows, int kCount, typename Out>
THINWIRE_TARGET void multiply_tile(const Tile<Out>& tile) {
  constexpr auto kAll = __mmask16{0xffff};
  const auto last = static_cast<__mmask16>(kAll >> (kCount * kLanes - tile.columns));
  HWY_UNROLL(6)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kCount; ++v) {
      __builtin_prefetch(tile.C + r * tile.ldc + v * kLanes, 1);
      if (tile.old.values != nullptr) {
        __builtin_prefetch(tile.old.values + r * tile.old.stride + v * kLanes);
      }
    }
  }
  __m512 sum[kRows][kCount];
  HWY_UNROLL(6)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kCount; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  const Bf16* a = tile.A.values;
  const Bf16* B = tile.B;
  for (int64_t i = 0; i < tile.pairs; ++i, a += tile.A.pair, B += 2 * kPairColumns) {
    __m512bh b[kCount];
    HWY_UNROLL(4)
    for (int v = 0; v < kCount; ++v) {
      b[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(B + v * 2 * kLanes));
    }
    HWY_UNROLL(6)
    for (int r = 0; r < kRows; ++r) {
      int32_t pair;
      std::memcpy(&pair, a + r * tile.A.row, sizeof(pair));
      const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
      HWY_UNROLL(4)
      for (int v = 0; v < kCount; ++v) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, b[v]);
    }
  }
  HWY_UNROLL(6)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kCount; ++v) {
      const __mmask16 mask = v + 1 == kCount ? last : kAll;
      if (tile.old.values != nullptr) {
        const float* const old = tile.old.values + r * tile.old.stride + v * kLanes;
        sum[r][v] = _mm512_add_ps(sum[r][v], _mm512_maskz_loadu_ps(mask, old));
      }
      store(tile.C + r * tile.ldc + v * kLanes, mask, sum[r][v]);
    }
  }
}

template <typename Out, int kRows, size_t... kCounts>
constexpr std::array<void (*)(const Tile<Out>&), kVectors> tiles_of_rows(
    std::index_sequence<kCounts...>) {
  return {multiply_tile<kRows, static_cast<int>(kCounts) + 1, Out>...};
}

template <typename Out, size_t... kRows>
constexpr auto all_tiles(std::index_sequence<kRows...>) {
  return std::array{
      tiles_of_rows<Out, static_cast<int>(kRows) + 1>(std::make_index_sequence<kVectors>())...};
}

template <typename Out>
void multiply(int64_t rows, int64_t columns, int64_t pairs, PairOperand A, PairPanels B,
              OldSums old, Out* C, int64_t ldc) {
  // [rows - 1][vectors - 1]
  static constexpr auto kTiles = all_tiles<Out>(std::make_index_sequence<kTileRows>());
  for (int64_t j = 0; j < columns; j += kPairColumns, B.values += B.panel) {
    const int64_t width = std::min(kPairColumns, columns - j);
    const auto vectors = static_cast<size_t>((width + kLanes - 1) / kLanes);
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const auto height = static_cast<size_t>(std::min(kTileRows, rows - i));
      const OldSums part = {old.values == nullptr ? nullptr : old.values + i * old.stride + j,
                            old.stride};
      kTiles[height - 1][vectors - 1](
          {width, pairs, A.at(i), B.values, part, C + i * ldc + j, ldc});
    }
  }
}

void release() {}

constexpr Bf16Tiles kAvx512 = {multiply<float>, multiply<Bf16>, release};

}  // namespace

const Bf16Tiles* avx512_tiles() {
  static const bool found = __builtin_cpu_supports("avx512bf16") &&
                            __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl");
  return found ? &kAvx512 : nullptr;
}

#else

const Bf16Tiles* avx512_tiles() { return nullptr; }

#endif

}  // namespace thinwire::tensor

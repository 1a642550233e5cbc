// Tiles of 6 rows and 4 vectors of 16 columns: 24 sums in registers, for which each unit of depth
// loads 4 vectors of B and 6 broadcast units of A. A Zen 4 starts one of its 24 products in every
// cycle, which leaves time for the loads: a tile runs at 99 % of what the instructions allow.
#include "thinwire/tensor/products/tiles.h"

#if defined(__x86_64__)
#include <hwy/base.h>
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "thinwire/tensor/products/gemm.h"

#define THINWIRE_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]
#endif

namespace thinwire::tensor {

#if defined(__x86_64__)
namespace {

constexpr int64_t kTileRows = 6;
constexpr int64_t kLanes = 16;
constexpr int64_t kVectors = kPanelColumns / kLanes;

template <typename In, typename Out>
struct Tile {
  int64_t columns, units;
  LeftOperand<In> A;
  const In* B;
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

// sum + x * b, x being one unit of A for all columns.
THINWIRE_TARGET inline __m512 multiply_add(const float* x, const float* b, __m512 sum) {
  return _mm512_fmadd_ps(_mm512_set1_ps(*x), _mm512_loadu_ps(b), sum);
}

THINWIRE_TARGET inline __m512 multiply_add(const Bf16* x, const Bf16* b, __m512 sum) {
  int32_t pair;
  std::memcpy(&pair, x, sizeof(pair));
#if defined(__clang__)  // clang 16 crashes at the other
  const __m512i pairs = _mm512_broadcastd_epi32(_mm_cvtsi32_si128(pair));
#else
  const __m512i pairs = _mm512_set1_epi32(pair);
#endif
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(pairs),
                          reinterpret_cast<__m512bh>(_mm512_loadu_si512(b)));
}

// One tile of kRows and as many columns as kCount vectors have, or a few less. The lines of C and
// of `old` are fetched while the products are computed.
template <typename In, typename Out, int kRows, int kCount>
THINWIRE_TARGET void multiply_tile(const Tile<In, Out>& tile) {
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
  const In* a = tile.A.values;
  const In* b = tile.B;
  for (int64_t i = 0; i < tile.units; ++i, a += tile.A.unit, b += kUnit<In> * kPanelColumns) {
    HWY_UNROLL(6)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(4)
      for (int v = 0; v < kCount; ++v) {
        sum[r][v] = multiply_add(a + r * tile.A.row, b + kUnit<In> * v * kLanes, sum[r][v]);
      }
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

template <typename In, typename Out, int kRows, size_t... kCounts>
constexpr std::array<void (*)(const Tile<In, Out>&), kVectors> tiles_of_rows(
    std::index_sequence<kCounts...>) {
  return {multiply_tile<In, Out, kRows, static_cast<int>(kCounts) + 1>...};
}

template <typename In, typename Out, size_t... kRows>
constexpr auto all_tiles(std::index_sequence<kRows...>) {
  return std::array{
      tiles_of_rows<In, Out, static_cast<int>(kRows) + 1>(std::make_index_sequence<kVectors>())...};
}

template <typename In, typename Out>
void multiply(int64_t rows, int64_t columns, int64_t units, LeftOperand<In> A, RightPanels<In> B,
              OldSums old, Out* C, int64_t ldc) {
  // [rows - 1][vectors - 1]
  static constexpr auto kTiles = all_tiles<In, Out>(std::make_index_sequence<kTileRows>());
  for (int64_t j = 0; j < columns; j += kPanelColumns, B.values += B.panel) {
    const int64_t width = std::min(kPanelColumns, columns - j);
    const auto vectors = static_cast<size_t>((width + kLanes - 1) / kLanes);
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const auto height = static_cast<size_t>(std::min(kTileRows, rows - i));
      kTiles[height - 1][vectors - 1](
          {width, units, A.at(i), B.values, old.at(i, j), C + i * ldc + j, ldc});
    }
  }
}

void release() {}

constexpr Tiles<float> kFp32 = {kPanelColumns, kPanelColumns, multiply<float, float>, release};
constexpr Bf16Tiles kBf16 = {{kPanelColumns, kPanelColumns, multiply<Bf16, float>, release},
                             multiply<Bf16, Bf16>};

}  // namespace

const Tiles<float>* avx512_fp32_tiles() { return has_avx512() ? &kFp32 : nullptr; }
const Bf16Tiles* avx512_bf16_tiles() { return has_avx512_bf16() ? &kBf16 : nullptr; }

#else

const Tiles<float>* avx512_fp32_tiles() { return nullptr; }
const Bf16Tiles* avx512_bf16_tiles() { return nullptr; }

#endif

}  // namespace thinwire::tensor

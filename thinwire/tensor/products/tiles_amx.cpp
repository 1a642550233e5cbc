#include "thinwire/tensor/products/tiles_amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {

#if defined(__x86_64__) && defined(__linux__)

// Every CPU with AMX has these.
#define THINWIRE_ROUNDING_TARGET [[gnu::target("avx512f,avx512bw,avx512bf16")]]

namespace {

// What LDTILECFG reads: all registers at their full size.
struct alignas(64) Configuration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(Configuration) == 64);

thread_local bool configured = false;

// The compiler does not know the registers, so the order of these statements is that of the
// program.
struct AmxInstructions {
  THINWIRE_AMX_TARGET static void prepare() {
    if (configured) return;
    static constexpr Configuration kAll;
    asm volatile("ldtilecfg %0" ::"m"(kAll));
    configured = true;
  }
  THINWIRE_AMX_TARGET static void release() {
    if (!configured) return;
    asm volatile("tilerelease");
    configured = false;
  }
  template <int kRegister>
  THINWIRE_AMX_TARGET static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kRegister));
  }
  template <int kRegister>
  THINWIRE_AMX_TARGET static void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kRegister)
                 : "memory");
  }
  template <int kRegister>
  THINWIRE_AMX_TARGET static void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kRegister)
                 : "memory");
  }
  template <int kSums, int kLeft, int kRight>
  THINWIRE_AMX_TARGET static void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
  // Sums in rows of kAmxPanel.
  THINWIRE_ROUNDING_TARGET static void round(int64_t rows, int64_t columns, const float* sums,
                                             Bf16* to, int64_t stride) {
    const auto mask = static_cast<__mmask32>((uint64_t{1} << columns) - 1);
    for (int64_t r = 0; r < rows; ++r, sums += kAmxPanel, to += stride) {
      const __m512bh both =
          _mm512_cvtne2ps_pbh(_mm512_load_ps(sums + kAmxColumns), _mm512_load_ps(sums));
      _mm512_mask_storeu_epi16(to, mask, reinterpret_cast<__m512i>(both));
    }
  }
};

using Amx = AmxTiles<AmxInstructions>;
constexpr Bf16Tiles kAmx = {
    {kAmxPanel, kAmxBlockRows, Amx::multiply<float>, AmxInstructions::release},
    Amx::multiply<Bf16>};

// Linux lets a process use the registers, which are large, only once it has asked for them.
bool is_permitted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

const Bf16Tiles* amx_bf16_tiles() {
  if (!has_amx_bf16() || !has_avx512_bf16()) return nullptr;
  static const bool permitted = is_permitted();
  return permitted ? &kAmx : nullptr;
}

#else

const Bf16Tiles* amx_bf16_tiles() { return nullptr; }

#endif

}  // namespace thinwire::tensor

#include "thinwire/base/rng.h"

#include <bit>
#include <cmath>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/maths.h"

namespace thinwire {

uint64_t derive_seed(uint64_t seed, std::string_view stream) {
  return derive_seed(seed, hash_bytes(as_bytes(stream)));
}

uint64_t Rng::below(uint64_t bound) {
  // Multiply-shift with rejection (Lemire 2019): exactly uniform.
  const uint64_t threshold = (0 - bound) % bound;
  while (true) {
    const auto product = static_cast<unsigned __int128>(bits()) * bound;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

double Rng::normal() {
  const double radius = std::sqrt(-2.0 * maths::log(1.0 - uniform()));
  return radius * maths::cos_pi(2.0 * uniform());
}

uint64_t permuted(uint64_t index, uint64_t size, uint64_t seed) {
  if (size <= 1) return index;
  const int half = (std::bit_width(size - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = index >> half;
    uint64_t right = index & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (mix_bits(derive_seed(seed, round) ^ right) & mask);
      left = right;
      right = next;
    }
    index = (left << half) | right;
  } while (index >= size);
  return index;
}

}  // namespace thinwire

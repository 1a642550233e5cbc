// Random numbers that are functions of (seed, stream, counter) and nothing else, so that a value
// can be computed anywhere, in any order, on any machine. Not for cryptography.
#pragma once

#include <cstdint>
#include <string_view>

namespace thinwire {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection on 64-bit integers.
inline uint64_t mix_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Combines two seeds into one; their order matters.
inline uint64_t derive_seed(uint64_t seed, uint64_t stream) {
  return mix_bits(mix_bits(seed) ^ (stream * 0xd6e8feb86659fd93u));
}
uint64_t derive_seed(uint64_t seed, std::string_view stream);

class Rng {
 public:
  Rng(uint64_t seed, uint64_t stream) : key_(derive_seed(seed, stream)) {}

  uint64_t bits() { return mix_bits(key_ + 0x9e3779b97f4a7c15u * counter_++); }
  // Uniform in [0, 1), 53 random bits.
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  // Uniform in [0, bound); bound >= 1.
  uint64_t below(uint64_t bound);
  // Standard normal (Box-Muller, one value per call), the same bits everywhere.
  double normal();
  // Goes on as if normal() had been called this often.
  void skip_normals(uint64_t count) { counter_ += kBitsOfNormal * count; }

 private:
  static constexpr uint64_t kBitsOfNormal = 2;  // calls of bits()

  uint64_t key_;
  uint64_t counter_ = 0;
};

// Where element `index` of [0, size) goes under the permutation chosen by `seed` (a Feistel network
// with cycle walking): a random order of any length without storing it. Needs index < size.
uint64_t permuted(uint64_t index, uint64_t size, uint64_t seed);

}  // namespace thinwire

#include <cassert>

#include "thinwire/base/secrets.h"

namespace thinwire {
namespace {

// GF(2^8) with the polynomial x^8 + x^4 + x^3 + x + 1, as AES has it. The time it takes does not
// depend on the values.
uint8_t times(uint8_t a, uint8_t b) {
  unsigned product = 0, shifted = a;
  for (unsigned bit = 0; bit < 8; ++bit) {
    product ^= shifted & (0u - ((b >> bit) & 1u));
    shifted = (shifted << 1) ^ (0x11bu & (0u - (shifted >> 7)));
  }
  return static_cast<uint8_t>(product);
}

// a^254 is the inverse of every a but 0.
uint8_t inverse(uint8_t a) {
  uint8_t power = 1;
  for (int i = 0; i < 254; ++i) power = times(power, a);
  return power;
}

uint8_t place_of(size_t index) { return static_cast<uint8_t>(index + 1); }

}  // namespace

std::vector<Secret> share_secret(const Secret& secret, size_t shares, size_t needed) {
  assert(needed >= 1 && needed <= shares && shares <= 255);
  std::vector<Secret> coefficients(needed, secret);  // of ascending powers
  for (size_t power = 1; power < needed; ++power) coefficients[power] = make_secret();
  std::vector<Secret> values(shares);
  for (size_t index = 0; index < shares; ++index) {
    for (size_t byte = 0; byte < secret.size(); ++byte) {
      uint8_t value = 0;
      for (size_t power = needed; power-- > 0;) {
        value = static_cast<uint8_t>(times(value, place_of(index)) ^ coefficients[power][byte]);
      }
      values[index][byte] = value;
    }
  }
  return values;
}

// Lagrange's interpolation at 0, where subtraction is addition.
Secret combine_shares(std::span<const SecretShare> shares) {
  Secret secret{};
  for (const SecretShare& one : shares) {
    uint8_t above = 1, below = 1;
    for (const SecretShare& other : shares) {
      if (other.index == one.index) continue;
      above = times(above, place_of(other.index));
      below = times(below, static_cast<uint8_t>(place_of(other.index) ^ place_of(one.index)));
    }
    const uint8_t factor = times(above, inverse(below));
    for (size_t byte = 0; byte < secret.size(); ++byte) {
      secret[byte] = static_cast<uint8_t>(secret[byte] ^ times(factor, one.value[byte]));
    }
  }
  return secret;
}

}  // namespace thinwire

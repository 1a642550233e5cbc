#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "thinwire/base/error.h"
#include "thinwire/base/secrets.h"

namespace thinwire {
namespace {

void fill(std::span<uint64_t> bits) {
  if (RAND_priv_bytes(reinterpret_cast<unsigned char*>(bits.data()),
                      static_cast<int>(bits.size_bytes())) != 1) {
    throw Error("the system supplies no random numbers that nobody can predict");
  }
}

double uniform_of(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

}  // namespace

Secret make_secret() {
  std::array<uint64_t, 4> bits{};
  fill(bits);
  return std::bit_cast<Secret>(bits);
}

double secret_uniform() {
  uint64_t bits = 0;
  fill({&bits, 1});
  return uniform_of(bits);
}

void fill_secret_normals(std::span<double> values) {
  std::array<uint64_t, 1024> bits;  // two for each pair of values
  while (!values.empty()) {
    const auto now = values.first(std::min(values.size(), bits.size()));
    fill(std::span(bits).first((now.size() + 1) / 2 * 2));
    for (size_t i = 0; i < now.size(); i += 2) {
      const double radius = std::sqrt(-2 * std::log(1 - uniform_of(bits[i])));
      const double angle = 2 * std::numbers::pi * uniform_of(bits[i + 1]);
      now[i] = radius * std::cos(angle);
      if (i + 1 < now.size()) now[i + 1] = radius * std::sin(angle);
    }
    values = values.subspan(now.size());
  }
}

}  // namespace thinwire

#include "thinwire/base/maths.h"

#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace thinwire::maths {
namespace {

template <size_t N>
double horner(const std::array<double, N>& coefficients, double x) {
  double sum = 0;
  for (size_t i = N; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// a = high + low, each with so few bits that their products are exact (Dekker 1971).
struct Halves {
  explicit Halves(double a) : high(upper(a)), low(a - high) {}
  static double upper(double a) {
    const double t = 0x1.0000002p27 * a;
    return t - (t - a);
  }
  double high, low;
};

// sin(pi r) for |r| <= 1/4.
double sine(double r) {
  // The terms of the Taylor series from r^3 on.
  static constexpr std::array kTerms = {-5.16771278004997,       2.5501640398773455,
                                        -0.5992645293207921,     0.08214588661112823,
                                        -0.0073704309457143504,  0.00046630280576761255,
                                        -2.1915353447830217e-05, 7.952054001475513e-07};
  constexpr double kPiHigh = 3.1415927410125732, kPiLow = -8.742278000372485e-08;  // 24 bits, rest
  const Halves h(r);
  const double s = r * r;
  return h.high * kPiHigh + (h.low * kPiHigh + r * (kPiLow + s * horner(kTerms, s)));
}

// cos(pi r) for |r| <= 1/4.
double cosine(double r) {
  // The terms of the Taylor series from r^4 on.
  static constexpr std::array kTerms = {
      4.0587121264167685,    -1.3352627688545895,    0.2353306303588932,   -0.02580689139001406,
      0.0019295743094039231, -0.0001046381049248457, 4.303069587032947e-06};
  constexpr double kHigh = 4.934802200544679, kLow = 3.1326477543698557e-16;  // pi^2 / 2
  const Halves h(r);
  const double s = r * r;
  const double rest = ((h.high * h.high - s) + 2 * h.high * h.low) + h.low * h.low;  // r^2 - s
  const double w = 1 - kHigh * s;
  return w + (((1 - w) - kHigh * s) + (s * (s * horner(kTerms, s)) - (kHigh * rest + kLow * s)));
}

}  // namespace

double cos_pi(double x) {
  const double a = x < 0 ? -x : x;
  assert(a <= 0x1p50);
  auto quarter = static_cast<int64_t>(2 * a);
  if (2 * a - static_cast<double>(quarter) > 0.5) ++quarter;
  const double r = a - static_cast<double>(quarter) / 2;
  switch (quarter % 4) {
    case 0:
      return cosine(r);
    case 1:
      return -sine(r);
    case 2:
      return -cosine(r);
    default:
      return sine(r);
  }
}

double log(double x) {
  assert(x >= std::numeric_limits<double>::min() && x <= std::numeric_limits<double>::max());
  // 2 / 3, 2 / 5, ...: the series of the inverse hyperbolic tangent, twice.
  static constexpr std::array kTerms = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                                        2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  constexpr double kRoot2 = 1.4142135623730951;
  // ln 2; the first part has so few bits that its product with an exponent is exact.
  constexpr double kLn2High = 0.6931467056274414, kLn2Low = 4.7493250390316726e-07;
  // x = 2^k m with m near 1; log m by s = (m - 1) / (m + 1), as in Sun's fdlibm.
  constexpr int kMantissaBits = 52, kBias = 1023;
  const auto bits = std::bit_cast<uint64_t>(x);
  auto exponent = static_cast<int64_t>(bits >> kMantissaBits) - kBias;
  constexpr uint64_t kMantissa = (uint64_t{1} << kMantissaBits) - 1;
  auto m = std::bit_cast<double>((bits & kMantissa) | uint64_t{kBias} << kMantissaBits);
  if (m >= kRoot2) {
    m /= 2;
    ++exponent;
  }
  const auto k = static_cast<double>(exponent);
  const double f = m - 1;
  const double s = f / (2 + f);
  const double z = s * s;
  const double half = 0.5 * f * f;
  const double tail = s * (half + z * horner(kTerms, z)) + k * kLn2Low;
  return k * kLn2High - ((half - tail) - f);
}

}  // namespace thinwire::maths

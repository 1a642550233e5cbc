#include "thinwire/optimizers/natural_galore/natural_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/optim/subspace.h"

namespace thinwire::optim {
namespace {

using testing::ElementsAreArray;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats random_gradient(int64_t length, double square, uint64_t seed) {
  Rng rng(seed, 1);
  Floats values(static_cast<size_t>(length));
  double sum = 0;
  for (float& value : values) {
    value = static_cast<float>(rng.normal());
    sum += double(value) * value;
  }
  for (float& value : values) value = static_cast<float>(value * std::sqrt(square / sum));
  return values;
}

double dot(const auto& a, const auto& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * double(b[i]);
  return sum;
}

// A history and its memory.
struct Held {
  Held(int64_t size, int64_t length)
      : gradients(size_t(size * length)),
        products(size_t(2 * size * size)),
        history(gradients, products, size),
        slots(size) {}

  // The natural gradient of the next gradient.
  Floats next(const Floats& gradient, double damping) {
    ThreadPool threads(2);
    const int64_t place = taken++ % slots;
    history.put(place, gradient, threads);
    Floats out(gradient.size());
    history.natural_gradient(place, damping, out, threads);
    return out;
  }

  Floats gradients, products;
  GradientHistory history;
  int64_t slots;
  int64_t taken = 0;
};

// (damping I + sum of g g^T)^-1 of the last of them, by Gaussian elimination on the dense matrix.
Doubles dense(const std::vector<Floats>& gradients, double damping) {
  const size_t n = gradients[0].size();
  std::vector<Doubles> a(n, Doubles(n + 1));
  for (size_t i = 0; i < n; ++i) {
    for (const Floats& g : gradients) {
      for (size_t j = 0; j < n; ++j) a[i][j] += double(g[i]) * g[j];
    }
    a[i][i] += damping;
    a[i][n] = gradients.back()[i];
  }
  for (size_t k = 0; k < n; ++k) {
    for (size_t i = k + 1; i < n; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (size_t j = k; j <= n; ++j) a[i][j] -= factor * a[k][j];
    }
  }
  Doubles x(n);
  for (size_t i = n; i-- > 0;) {
    x[i] = a[i][n];
    for (size_t j = i + 1; j < n; ++j) x[i] -= a[i][j] * x[j];
    x[i] /= a[i][i];
  }
  return x;
}

// The textbook form in fp32: 1/lambda (g - G (lambda I + G^T G)^-1 G^T g).
Floats textbook(const std::vector<Floats>& gradients, float damping) {
  const size_t s = gradients.size();
  Doubles products(s * s);
  Floats along(s);
  for (size_t i = 0; i < s; ++i) {
    for (size_t j = 0; j < s; ++j) products[i * s + j] = float(dot(gradients[i], gradients[j]));
    along[i] = float(dot(gradients[i], gradients.back()));
  }
  Floats factors(s);
  for (size_t j = 0; j < s; ++j) {
    const Doubles column = solve_damped(products, int64_t(s), damping, int64_t(j));
    for (size_t i = 0; i < s; ++i) factors[i] += float(column[i]) * along[j];
  }
  Floats out = gradients.back();
  for (size_t i = 0; i < s; ++i) {
    for (size_t k = 0; k < out.size(); ++k) out[k] -= factors[i] * gradients[i][k];
  }
  for (float& value : out) value /= damping;
  return out;
}

double difference(const auto& got, const Doubles& expected) {
  double sum = 0;
  for (size_t i = 0; i < got.size(); ++i) sum += std::pow(got[i] - expected[i], 2);
  return std::sqrt(sum / dot(expected, expected));
}

TEST(NaturalGradient, OfOneGradientIsItOverDampingAndSquareNorm) {
  const Floats g = random_gradient(50, 3, 1);
  Held held(1, 50);
  held.next(random_gradient(50, 8, 2), 0.5);
  const Floats got = held.next(g, 0.5);
  for (size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(got[i], g[i] / 3.5, 1e-6);
}

TEST(NaturalGradient, OfAConstantGradientFallsUntilTheHistoryIsFull) {
  for (const double square : {1e-6, 1.0, 1e4}) {
    const Floats g = random_gradient(300, square, 3);
    Held held(5, 300);
    for (int t = 1; t <= 9; ++t) {
      const Floats got = held.next(g, 1e-3);
      const double factor = 1 / (1e-3 + std::min(t, 5) * dot(g, g));
      Doubles expected(g.begin(), g.end());
      for (double& value : expected) value *= factor;
      ASSERT_LT(difference(got, expected), 1e-6) << square << " " << t;
    }
  }
}

TEST(NaturalGradient, WithLargeDampingIsTheGradientOverIt) {
  Held held(4, 40);
  for (uint64_t t = 0; t < 6; ++t) {
    const Floats g = random_gradient(40, 1, 10 + t);
    const Floats got = held.next(g, 1e9);
    for (size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(got[i] * 1e9, g[i], 1e-6);
  }
}

// g*(c G, c^2 lambda) = g* / c
TEST(NaturalGradient, ScalesInverselyWithTheGradients) {
  Held one(4, 60), large(4, 60);
  for (uint64_t t = 0; t < 7; ++t) {
    Floats g = random_gradient(60, 2, 20 + t);
    const Floats a = one.next(g, 1e-2);
    for (float& value : g) value *= 8;
    const Floats b = large.next(g, 0.64);
    for (size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(8 * b[i], a[i], 1e-6 * std::fabs(a[i]));
  }
}

// Gradients that have much in common, as those of training have, and differ by a tenth.
std::vector<Floats> alike(int64_t length, int count, double square) {
  const Floats common = random_gradient(length, square, 30);
  std::vector<Floats> gradients;
  for (int t = 0; t < count; ++t) {
    Floats g = random_gradient(length, 0.01 * square, 31 + uint64_t(t));
    for (size_t i = 0; i < g.size(); ++i) g[i] += common[i];
    gradients.push_back(std::move(g));
  }
  return gradients;
}

TEST(NaturalGradient, IsTheDenseInverseWhereTheTextbookFormFails) {
  constexpr int64_t kLength = 90;
  constexpr int kSize = 6;
  double worst_textbook = 0;
  for (const double square : {1e-6, 1e-3, 1.0, 1e2, 4e2, 1e4}) {
    const std::vector<Floats> gradients = alike(kLength, kSize, square);
    const Doubles expected = dense(gradients, 1e-3);
    Held held(kSize, kLength);
    Floats got;
    for (const Floats& g : gradients) got = held.next(g, 1e-3);
    EXPECT_LT(difference(got, expected), 1e-5) << square;
    worst_textbook = std::max(worst_textbook, difference(textbook(gradients, 1e-3f), expected));
  }
  EXPECT_GT(worst_textbook, 0.1);
}

// Gradients seen in other orthonormal coordinates have the same natural gradient, in them.
TEST(NaturalGradient, TurnsWithItsCoordinates) {
  constexpr int64_t kLength = 40;
  Floats turn = random_gradient(kLength * kLength, 1, 50);
  ThreadPool threads(1);
  orthonormalise(turn, kLength, kLength, 1, threads);
  const auto turned = [&](const Floats& g) {
    Floats out(g.size());
    for (int64_t i = 0; i < kLength; ++i) {
      out[size_t(i)] =
          float(dot(Floats(turn.begin() + i * kLength, turn.begin() + (i + 1) * kLength), g));
    }
    return out;
  };
  Held plain(5, kLength), other(5, kLength);
  for (const Floats& g : alike(kLength, 8, 2)) {
    const Floats expected = turned(plain.next(g, 1e-2));
    const Floats got = other.next(turned(g), 1e-2);
    ASSERT_LT(difference(got, Doubles(expected.begin(), expected.end())), 1e-4);
  }
}

TEST(GradientHistory, KeepsProductsToFloat64AndFormsThemAgain) {
  constexpr int64_t kSize = 5, kLength = 5000;
  Held held(kSize, kLength);
  ThreadPool one(1), three(3);
  for (int64_t t = 0; t < kSize; ++t) {
    held.history.put(t, random_gradient(kLength, 7, 60 + uint64_t(t)), three);
  }
  EXPECT_NEAR(held.history.mean_square(), 7, 1e-5);
  const double exact = dot(held.history.at(1), held.history.at(3));
  const double kept =
      double(held.products[1 * kSize + 3]) + double(held.products[kSize * kSize + 1 * kSize + 3]);
  EXPECT_NEAR(kept, exact, 1e-12);
  const Floats before = held.products;
  std::ranges::fill(held.products, 1.0f);
  held.history.renew_products(one);
  EXPECT_THAT(held.products, ElementsAreArray(before));
  held.history.clear();
  EXPECT_EQ(held.history.mean_square(), 0);
}

TEST(SolveDamped, TakesNoPivotBelowTheDamping) {
  // Not positive definite by rounding: the second pivot would be negative.
  const Doubles x = solve_damped({1, 1 + 1e-9, 1 + 1e-9, 1}, 2, 1e-12, 1);
  for (const double value : x) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace thinwire::optim

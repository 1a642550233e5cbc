#include "thinwire/codec/value_sketch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "thinwire/base/rng.h"

namespace thinwire::codec {
namespace {

constexpr uint64_t kSeed = 3;
// By far more than the error of a cosine.
constexpr double kError = 6 / 32.0;  // 6 / sqrt(kSketchValues)

std::vector<float> normals(size_t count, uint64_t stream) {
  Rng rng(11, stream);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

std::vector<float> direction_of(const std::vector<float>& values, uint64_t seed = kSeed) {
  ValueSketch sketch(seed);
  sketch.add(0, values);
  return sketch.direction();
}

double estimated(const std::vector<float>& a, const std::vector<float>& b) {
  return cosine(direction_of(a), direction_of(b));
}

TEST(ValueSketch, ShowsTheAngleBetweenVectors) {
  const auto common = normals(50'000, 0);
  for (const double share : {0.0, 0.3, 0.9}) {
    auto a = normals(50'000, 1), b = normals(50'000, 2);
    for (size_t i = 0; i < common.size(); ++i) {
      const double own = std::sqrt(1 - share);
      const double both = std::sqrt(share) * static_cast<double>(common[i]);
      a[i] = static_cast<float>(both + own * static_cast<double>(a[i]));
      b[i] = static_cast<float>(both + own * static_cast<double>(b[i]));
    }
    EXPECT_NEAR(estimated(a, b), share, kError);
    for (float& value : b) value *= -7;
    EXPECT_NEAR(estimated(a, b), -share, kError);
  }
}

// Of 1e5 values one is another: 1 - cos is half of its square over the squares of all.
TEST(ValueSketch, ShowsHowLittleNearlyEqualVectorsDiffer) {
  const auto a = normals(100'000, 1);
  auto b = a;
  b[777] += 10;
  EXPECT_NEAR(1 - estimated(a, b), 0.5 * 100 / 100'000, 0.1 * 0.5 * 100 / 100'000);
  for (float& value : b) value *= 1.01f;
  EXPECT_NEAR(1 - estimated(a, b), 0.5 * 100 / 100'000, 0.1 * 0.5 * 100 / 100'000);
}

// Matrices whose large values are all in one column, of a width that the sketch has, too.
TEST(ValueSketch, DoesNotDependOnWhereValuesLie) {
  const auto first = normals(500, 1), second = normals(500, 2);
  std::vector<float> a(500 * kSketchValues), b(500 * kSketchValues);
  for (size_t row = 0; row < 500; ++row) {
    a[row * kSketchValues + 5] = first[row];
    b[row * kSketchValues + 5] = second[row];
  }
  EXPECT_NEAR(estimated(a, b), 0, kError);
}

TEST(ValueSketch, IsTheSameInWhateverPiecesValuesCome) {
  const auto values = normals(5'000, 1);
  const auto whole = direction_of(values);
  for (const size_t piece : {1, 7, 64, 1'000}) {
    ValueSketch sketch(kSeed);
    sketch.add(0, normals(100, 9));
    sketch.clear();
    for (size_t i = 0; i < values.size(); i += piece) {
      sketch.add(i, std::span(values).subspan(i, std::min(piece, values.size() - i)));
    }
    EXPECT_EQ(sketch.direction(), whole) << piece;
  }
}

TEST(ValueSketch, IsAnotherWithAnotherSeed) {
  const auto values = normals(5'000, 1);
  EXPECT_NEAR(cosine(direction_of(values, 1), direction_of(values, 2)), 0, kError);
}

TEST(ValueSketch, HasNoDirectionWithoutValues) {
  EXPECT_TRUE(direction_of({0, 0, 0}).empty());
  EXPECT_TRUE(direction_of({1, std::numeric_limits<float>::infinity()}).empty());
  EXPECT_TRUE(direction_of({1, NAN}).empty());
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_NEAR(estimated({kLargest, kLargest}, {1, 1}), 1, 1e-6);
}

}  // namespace
}  // namespace thinwire::codec

#include "thinwire/base/rng.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"

namespace thinwire {
namespace {

TEST(MixBits, IsSplitMix64) {
  // The first outputs of SplitMix64 seeded with 0: its state after n steps is n times the
  // increment.
  const uint64_t step = 0x9e3779b97f4a7c15u;
  EXPECT_EQ(mix_bits(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(mix_bits(step), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(mix_bits(2 * step), 0x06c45d188009454fu);
}

// These values are in every run folder and every data order: they must never change.
TEST(Rng, KeepsItsValues) {
  Rng rng(1, 2);
  EXPECT_EQ(rng.bits(), 0xdd9815606d20cb28u);
  EXPECT_EQ(rng.bits(), 0x9c48cc916cb86cf4u);
  EXPECT_EQ(derive_seed(1, "model"), 0x0becf48d2d7e7a15u);
}

// By tests/golden/make_maths.py.
TEST(Rng, NormalHasTheReferencesBits) {
  const auto golden = parse_json<nlohmann::json>(
      read_text_file(tests::source_file("tests/golden/maths.json")))["normal"];
  Rng rng(golden["seed"], golden["stream"]);
  ASSERT_GE(golden["values"].size(), 200u);
  for (const std::string value : golden["values"]) {
    EXPECT_EQ(rng.normal(), std::strtod(value.c_str(), nullptr));
  }
}

TEST(Rng, SkippedNormalsAreThoseThatWouldHaveBeenDrawn) {
  Rng all(5, 6), later(5, 6);
  for (int i = 0; i < 37; ++i) all.normal();
  later.skip_normals(30);
  later.skip_normals(7);
  EXPECT_EQ(later.normal(), all.normal());
}

TEST(DeriveSeed, DependsOnTheOrder) {
  EXPECT_NE(derive_seed(1, 2), derive_seed(2, 1));
  EXPECT_NE(derive_seed(1, "a"), derive_seed(1, "b"));
}

TEST(Rng, UniformStaysBelowOneAndFillsTheInterval) {
  Rng rng(3, 0);
  std::array<int, 10> counts{};
  for (int i = 0; i < 10'000; ++i) {
    const double value = rng.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    ++counts[static_cast<size_t>(value * 10)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);  // 5 standard deviations
}

TEST(Rng, BelowIsUniformAndInBounds) {
  Rng rng(4, 0);
  EXPECT_EQ(rng.below(1), 0u);
  std::array<int, 7> counts{};
  for (int i = 0; i < 7'000; ++i) ++counts.at(rng.below(7));
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  // A bound for which half of all draws must be rejected.
  for (int i = 0; i < 100; ++i) EXPECT_LE(rng.below((uint64_t{1} << 63) + 1), uint64_t{1} << 63);
}

TEST(Rng, NormalHasMeanZeroAndVarianceOne) {
  Rng rng(5, 0);
  const int count = 20'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < count; ++i) {
    const double value = rng.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2.0 / count));
}

TEST(Permuted, IsABijectionForEverySize) {
  for (uint64_t size = 1; size <= 300; ++size) {
    std::vector<bool> taken(size);
    for (uint64_t index = 0; index < size; ++index) {
      const uint64_t image = permuted(index, size, size * 7);
      ASSERT_LT(image, size);
      ASSERT_FALSE(taken[image]) << size;
      taken[image] = true;
    }
  }
}

RC_GTEST_PROP(Permuted, StaysInsideHugeRanges, (uint64_t index, uint64_t size, uint64_t seed)) {
  RC_PRE(size > 0u);
  RC_ASSERT(permuted(index % size, size, seed) < size);
}

TEST(Permuted, DependsOnTheSeedAndScatters) {
  std::set<uint64_t> images;
  int in_place = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) images.insert(permuted(5, 1'000'000, seed));
  for (uint64_t index = 0; index < 1000; ++index) {
    if (permuted(index, 1000, 1) == index) ++in_place;
  }
  EXPECT_GE(images.size(), 99u);
  EXPECT_LE(in_place, 8);
}

}  // namespace
}  // namespace thinwire

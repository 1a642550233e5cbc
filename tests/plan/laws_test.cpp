#include "thinwire/plan/laws.h"

#include <gtest/gtest.h>

#include "thinwire/base/file.h"

namespace thinwire::plan {
namespace {

TEST(Laws, FilesRoundTrip) {
  const fs::path file = fs::path(testing::TempDir()) / "laws.toml";
  std::vector<MethodLaw> laws(2);
  laws[0].method = "allreduce";
  laws[0].scale = 6.06e14;
  laws[0].exponent = 0.069;
  laws[1].method = "diloco";
  laws[1].scale = 3.15e14;
  laws[1].exponent = 0.072;
  laws[1].loss_per_local_step = 1.4e-4;
  save_laws(file, laws);
  const auto again = load_laws(file);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[1].method, "diloco");
  EXPECT_EQ(again[1].scale, 3.15e14);
  EXPECT_EQ(again[1].loss(1e9, 100), laws[1].loss(1e9, 100));
  EXPECT_EQ(with_own({}, again).loss_per_local_step, 1.4e-4);
}

}  // namespace
}  // namespace thinwire::plan

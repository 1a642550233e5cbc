#include "thinwire/plan/laws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/errors.h"
#include "thinwire/base/file.h"

namespace thinwire::plan {
namespace {

TEST(Laws, FilesRoundTrip) {
  const fs::path file = fs::path(testing::TempDir()) / "laws.toml";
  std::vector<MethodLaw> laws(2);
  laws[0].method = "allreduce";
  laws[0].law = {6.06e14, 0.069, 1.25, 3e9, 0.5};
  laws[1].method = "diloco";
  laws[1].law = {3.15e14, 0.072};
  laws[1].loss_per_local_step = 1.4e-4;
  save_laws(file, laws);
  const auto again = load_laws(file);
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[1].method, "diloco");
  EXPECT_EQ(again[1].law.scale, 3.15e14);
  EXPECT_EQ(again[1].loss(1e9, 2e10, 100), laws[1].loss(1e9, 2e10, 100));
  EXPECT_EQ(again[0].loss(1e9, 2e10, 1), laws[0].loss(1e9, 2e10, 1));
  EXPECT_GT(again[0].loss(1e9, 1e9, 1), again[0].loss(1e9, 2e10, 1));
  EXPECT_EQ(with_own({}, again).loss_per_local_step, 1.4e-4);
}

TEST(Laws, TheTermForTokensIsGivenWhole) {
  const fs::path file = fs::path(testing::TempDir()) / "half.toml";
  write_file(
      file, "[[law]]\nmethod = \"allreduce\"\nscale = 1e14\nexponent = 0.07\ntokens_scale = 1e9\n");
  EXPECT_THAT(
      tests::error_of([&] { load_laws(file); }),
      testing::HasSubstr("tokens_scale and tokens_exponent must both be given or both be 0, "
                         "got 1000000000 and 0"));
}

}  // namespace
}  // namespace thinwire::plan

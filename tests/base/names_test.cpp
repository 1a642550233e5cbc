#include "thinwire/base/names.h"

#include <gtest/gtest.h>

namespace thinwire {
namespace {

TEST(Pattern, MatchesTheWholeNameWithStarsForAnyText) {
  EXPECT_TRUE(matches_pattern("q_proj", "q_proj"));
  EXPECT_FALSE(matches_pattern("q_proj", "q_proj2"));
  EXPECT_TRUE(matches_pattern("*_proj", "q_proj"));
  EXPECT_TRUE(matches_pattern("layers.*.q*", "layers.11.q_proj"));
  EXPECT_FALSE(matches_pattern("layers.1.*", "layers.11.q_proj"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_TRUE(matches_pattern("*a*a*", "banana"));
}

}  // namespace
}  // namespace thinwire

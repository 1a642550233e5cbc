// An arena with a second copy, here on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "thinwire/tensor/storage/arena.h"

namespace thinwire::tensor {
namespace {

using testing::Each;

Layout one_tensor() { return Layout({{"a", {4, 8}}}); }

TEST(MirroredArena, EitherSideHasWhatTheOtherWrote) {
  const Layout layout = one_tensor();
  Arena arena(layout);
  arena.all()[3] = 5;
  arena.mirror_on(DevicePlace{});
  EXPECT_EQ(std::as_const(arena).device_values()[3], 5);
  arena.device_values()[3] = 6;
  EXPECT_EQ(std::as_const(arena).all()[3], 6);
  arena.tensor(0)[3] = 7;
  EXPECT_EQ(std::as_const(arena).device_values()[3], 7);
}

TEST(MirroredArena, ReadingOneSideLeavesTheOtherValid) {
  const Layout layout = one_tensor();
  Arena arena(layout);
  arena.mirror_on(DevicePlace{});
  float* const device = arena.device_values();
  device[0] = 1;
  EXPECT_EQ(std::as_const(arena).all()[0], 1);
  device[0] = 2;  // behind its back: an unnecessary copy would bring the 1 back
  EXPECT_EQ(std::as_const(arena).device_values()[0], 2);
}

TEST(MirroredArena, ClearingReachesBothSides) {
  const Layout layout = one_tensor();
  Arena arena(layout);
  arena.all()[3] = 5;
  arena.mirror_on(DevicePlace{});
  arena.clear();
  EXPECT_EQ(std::as_const(arena).device_values()[3], 0);
  EXPECT_THAT(std::as_const(arena).all(), Each(0.0f));
}

}  // namespace
}  // namespace thinwire::tensor

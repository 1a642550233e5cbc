#include "thinwire/transport/pacer.h"

#include <gtest/gtest.h>

namespace thinwire::transport {
namespace {

// 1000 bytes a second up, 4000 down.
constexpr links::Link kLink{.up_bit_s = 8000, .down_bit_s = 32000, .delay_s = 1, .loss = 0};

TEST(Pacer, BytesLeaveOneBehindTheOther) {
  Pacer pacer(kLink);
  EXPECT_DOUBLE_EQ(pacer.leave(10, 500), 10.5);
  EXPECT_DOUBLE_EQ(pacer.leave(10, 1000), 11.5);
  EXPECT_DOUBLE_EQ(pacer.leave(11, 100), 11.6) << "however late it is asked";
  EXPECT_DOUBLE_EQ(pacer.leave(20, 1000), 21) << "nothing is saved up";
}

TEST(Pacer, BytesComeInAtTheOtherRateMeanwhile) {
  Pacer pacer(kLink);
  pacer.leave(0, 100'000);
  EXPECT_DOUBLE_EQ(pacer.arrive(0, 4000), 1);
  EXPECT_DOUBLE_EQ(pacer.arrive(0.5, 2000), 1.5);
}

TEST(Pacer, LostBytesTakeAsLongAsTheOthers) {
  links::Link lossy = kLink;
  lossy.loss = 0.5;
  EXPECT_DOUBLE_EQ(Pacer(lossy).leave(0, 1000), 2);
}

TEST(Pacer, ARateOfZeroIsNoLimit) {
  Pacer pacer({});
  EXPECT_EQ(pacer.leave(3, 1'000'000'000), 3);
  EXPECT_EQ(pacer.arrive(4, 1'000'000'000), 4);
  EXPECT_GE(pacer.piece_bytes(), size_t{1} << 30);
}

TEST(Pacer, PiecesAreSmallOnThinWires) {
  EXPECT_EQ(Pacer(kLink).piece_bytes(), 1024U);
  links::Link home = kLink;
  home.up_bit_s = 10e6;
  EXPECT_EQ(Pacer(home).piece_bytes(), 6250U);
}

}  // namespace
}  // namespace thinwire::transport

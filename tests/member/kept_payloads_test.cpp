#include "thinwire/member/kept_payloads.h"

#include <gtest/gtest.h>

namespace thinwire::member {
namespace {

class PayloadsKept : public testing::Test {
 protected:
  // A payload of its own of so many bytes.
  void keep(uint64_t round, uint8_t number, size_t bytes) {
    kept_.keep(round, name(number), std::make_shared<const Bytes>(bytes, number));
  }
  static Sha256 name(uint8_t number) { return sha256(Bytes{number}); }
  bool has(uint8_t number) const { return kept_.find(name(number)) != nullptr; }

  KeptPayloads kept_{100};
};

TEST_F(PayloadsKept, AreThereUntilTheirRoundIsForgotten) {
  keep(3, 1, 10);
  keep(3, 2, 10);
  keep(4, 3, 10);
  EXPECT_EQ(kept_.oldest_round(), 3u);
  EXPECT_EQ(*kept_.find(name(2)), Bytes(10, 2));
  kept_.forget_before(4);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(has(3));
  EXPECT_EQ(kept_.oldest_round(), 4u);
  kept_.forget_before(5);
  EXPECT_FALSE(kept_.oldest_round());
}

TEST_F(PayloadsKept, AreNoMoreThanSoManyBytes) {
  keep(3, 1, 60);
  keep(3, 1, 60);
  keep(4, 2, 40);
  EXPECT_TRUE(has(1)) << "kept twice, it counts once";
  keep(5, 3, 1);
  EXPECT_FALSE(has(1));
  EXPECT_TRUE(has(2));
  keep(6, 4, 1000);
  EXPECT_FALSE(has(3));
  EXPECT_TRUE(has(4)) << "the newest stays, however long it is";
  keep(7, 5, 99);
  EXPECT_TRUE(has(5));
  EXPECT_FALSE(has(4)) << "the bytes of those that went are free again";
  keep(8, 6, 1);
  EXPECT_TRUE(has(5));
}

}  // namespace
}  // namespace thinwire::member

#include "thinwire/sync/member_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "thinwire/codec/wire.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr transport::Key kKey{1, 0, 0, 0};
constexpr double kPatience = 30;

class OneBitSum : public testing::Test {
 protected:
  static constexpr int kMembers = 3;

  // What member 0 gets if the others do as told.
  std::vector<float> sum(const MemberShares& shares, const std::vector<int>& leaving) {
    std::vector<std::thread> others;
    for (int member = 1; member < kMembers; ++member) {
      others.emplace_back([&, member] {
        transport::Communicator& own = *communicators_[static_cast<size_t>(member)];
        if (std::ranges::find(leaving, member) != leaving.end()) return own.leave();
        std::vector<float> out(4);
        take_part(own, shares, out);
      });
    }
    std::vector<float> out(4);
    take_part(*communicators_.front(), shares, out);
    for (std::thread& one : others) one.join();
    return out;
  }

  static void take_part(transport::Communicator& communicator, const MemberShares& shares,
                        std::vector<float>& out) {
    MemberSum sum({}, communicator);
    const auto one = static_cast<float>(communicator.rank() + 1);
    const std::vector values = {one, -one, one, one};
    sum.start(kKey, values, codec::wire_codec(WireType::kInt1), shares, true);
    const auto done = sum.wait(kKey, out, kPatience);
    EXPECT_TRUE(done) << done.error().message;
  }

  std::vector<std::unique_ptr<transport::Communicator>> communicators_ =
      transport::make_local_communicators(kMembers);
};

TEST_F(OneBitSum, IsOfTheValuesAsSent) {
  EXPECT_THAT(sum({{0, 1, 2}, {0.5f, 0.25f, 0.25f}}, {}), ElementsAre(6, -6, 6, 6));
}

TEST_F(OneBitSum, MakesUpForThoseWhoAreMissing) {
  EXPECT_THAT(sum({{0, 1, 2}, {0.5f, 0.25f, 0.25f}}, {1}),
              ElementsAre(16 / 3.0f, -16 / 3.0f, 16 / 3.0f, 16 / 3.0f));
}

// As a run goes on whose only contributor was lost.
TEST_F(OneBitSum, OfNobodyIsZero) { EXPECT_THAT(sum({{1}, {1}}, {1}), Each(0)); }

}  // namespace
}  // namespace thinwire::sync

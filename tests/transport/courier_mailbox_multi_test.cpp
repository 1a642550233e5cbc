// The courier over two folders that a thread synchronises with a delay.
#include "mailbox_world.h"

namespace thinwire::transport {
namespace {

template <SynchronisedWorld::Copying kCopying>
std::unique_ptr<CourierWorld> synchronised() {
  return std::make_unique<SynchronisedWorld>(kCopying);
}

INSTANTIATE_TEST_SUITE_P(
    Synchronised, CourierContract,
    testing::Values(WorldKind{"Renamed", synchronised<SynchronisedWorld::Copying::kRenamed>},
                    WorldKind{"CopiedInPlace", synchronised<SynchronisedWorld::Copying::kInPlace>}),
    [](const auto& kind) { return kind.param.name; });

// It is asked for before it has arrived.
TEST(SynchronisedMailbox, AChunkThatIsOnItsWayIsWaitedFor) {
  for (const auto copying :
       {SynchronisedWorld::Copying::kRenamed, SynchronisedWorld::Copying::kInPlace}) {
    SynchronisedWorld world(copying);
    const auto here = world.connect("here");
    MailboxOptions options = world.options("there");
    options.settle_s = kMailboxPatience;
    const auto there = std::move(*open_mailbox_courier(options));
    const Bytes blob = random_bytes(20 * kMaxMessageBytes, 1);
    Mail<bool> fetched;
    there->get(blob_id(blob), {"here"}, Priority::kRound,
               [&](const Result<Bytes>& got) { fetched.add(got.value_or(Bytes()) == blob); });
    ASSERT_TRUE(put(world, *here, blob));
    ASSERT_TRUE(world.wait(fetched, 1));
    EXPECT_TRUE(fetched.all().front());
  }
}

}  // namespace
}  // namespace thinwire::transport

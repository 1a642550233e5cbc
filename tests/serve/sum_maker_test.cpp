// Sums that a coordinator's host forms for members.
#include "thinwire/serve/sum_maker.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/serve/host_case.h"
#include "tests/transport/codecs.h"

namespace thinwire::serve {
namespace {

class HostThatSums : public HostCase {
 protected:
  HostThatSums() {
    options_.sums = sync::SumRule{config::Sums::kCoordinator, &transport::kF32};
    heard_ = members_[0].courier->subscribe(
        "", membership::kCoordinatorsTopic, [this](const std::string&, const Bytes& bytes) {
          const auto statement = membership::decode_statement(bytes, kRun, verify);
          ASSERT_TRUE(statement);
          if (const auto* sum = std::get_if<membership::Sum>(&statement->message)) {
            sums_.push_back(*sum);
          }
        });
  }
  // What a member contributes with two rows of six: 16 values that depend on the round.
  static Bytes values_of(int member, uint64_t round) {
    const std::vector<float> values(16,
                                    static_cast<float>(member + 1) * static_cast<float>(round + 1));
    Bytes bytes(wire_bytes(WireType::kF32, values.size()));
    transport::kF32.encode(values, bytes);
    return bytes;
  }
  void close(uint64_t round) {
    for (int member = 0; member < 3; ++member) offer(member, round, values_of(member, round));
    wait(1);
    ASSERT_TRUE(host_->state().opening(round) == nullptr);
  }
  // What members fetch as a sum; empty: nobody has it.
  std::vector<float> fetched(const membership::Sum& sum) {
    std::vector<float> values;
    members_[0].courier->get({sum.payload, sum.bytes}, {courier_->self()},
                             transport::Priority::kRound, [&](const Result<Bytes>& got) {
                               if (!got) return;
                               values.resize(got->size() / sizeof(float));
                               ASSERT_TRUE(transport::kF32.decode(*got, values));
                             });
    network_.run_until(now_);
    return values;
  }

  std::vector<membership::Sum> sums_;
  std::unique_ptr<transport::Subscription> heard_;
};

TEST_F(HostThatSums, StoresTheSumOfWhatWasCommittedAndSaysSo) {
  begin(9);
  close(0);
  close(1);
  ASSERT_EQ(sums_.size(), 2u);
  EXPECT_EQ(sums_[1].round, 1u);
  EXPECT_EQ(sums_[1].factor, 1);
  std::vector<Contribution> listed(3);
  for (int member = 0; member < 3; ++member) {
    listed[static_cast<size_t>(member)].payload = transport::blob_id(values_of(member, 1)).name;
  }
  EXPECT_EQ(sums_[1].contributions, sync::digest_of(listed));
  EXPECT_EQ(fetched(sums_[1]), std::vector<float>(16, 2 + 4 + 6));
}

// One that says that it contributes nothing is not expected to.
TEST_F(HostThatSums, FormsNoSumOfTwoContributions) {
  begin(9);
  for (int member = 0; member < 2; ++member) offer(member, 0, values_of(member, 0));
  offer(2, 0, {});
  wait(1);
  ASSERT_TRUE(host_->state().opening(0) == nullptr);
  EXPECT_TRUE(sums_.empty());
}

TEST_F(HostThatSums, DeletesWhatMembersHaveLongApplied) {
  begin(20);
  for (uint64_t round = 0; round < 4; ++round) close(round);
  EXPECT_FALSE(fetched(sums_.front()).empty());
  close(4);
  EXPECT_TRUE(fetched(sums_.front()).empty());
  EXPECT_FALSE(fetched(sums_.back()).empty());
}

// Members then form it themselves.
TEST_F(HostThatSums, SaysNothingOfASumWhoseContributionsAreOfDifferentLengths) {
  begin(9);
  for (int member = 0; member < 2; ++member) offer(member, 0, values_of(member, 0));
  offer(2, 0, Bytes(8));
  wait(1);
  ASSERT_TRUE(host_->state().opening(0) == nullptr);
  EXPECT_TRUE(sums_.empty());
  close(1);
  EXPECT_EQ(sums_.size(), 1u) << "the next sum is formed";
}

TEST_F(HostThatSums, AnotherCoordinatorFormsTheLastOnesAgain) {
  begin(9);
  close(0);
  start(9);
  wait(1);
  report_all();
  ASSERT_EQ(sums_.size(), 2u);
  EXPECT_EQ(sums_[0], sums_[1]);
}

// Their holders may be behind thin lines, or gone.
TEST_F(HostThatSums, TakesItsOwnCopiesOfContributions) {
  options_.keeps = true;
  begin(9);
  for (int member = 0; member < 2; ++member) offer(member, 0, values_of(member, 0));
  wait(1);
  for (int member = 0; member < 2; ++member) {
    const Sha256 chunk = transport::blob_id(values_of(member, 0)).name;
    courier_->drop(chunk, members_[static_cast<size_t>(member)].courier->self(),
                   [](const Result<void>& done) { EXPECT_TRUE(done); });
  }
  offer(2, 0, values_of(2, 0));
  wait(1);
  ASSERT_EQ(sums_.size(), 1u);
  EXPECT_EQ(fetched(sums_[0]), std::vector<float>(16, 1 + 2 + 3));
}

TEST_F(HostThatSums, TakesContributionsFromTheirHoldersWhereItHasNoCopies) {
  begin(9);
  close(0);
  options_.keeps = true;
  start(9);
  wait(1);
  report_all();
  ASSERT_EQ(sums_.size(), 2u);
  EXPECT_EQ(sums_[0], sums_[1]);
}

// Contributions of 1 MiB, over a coordinator's line of 1 MB/s.
class HostBehindAThinLine : public HostThatSums {
 protected:
  HostBehindAThinLine() {
    options_.sums->who = config::Sums::kAuto;
    const std::string name = courier_->self();
    courier_.reset();
    courier_ = network_.connect(name, {.up_bit_s = 8e6, .down_bit_s = 8e6});
  }
  // A message takes until the next tick.
  void begin() {
    start(9);
    wait(2);
    for (int member = 0; member < 3; ++member) send(member, join_request(member));
    wait(4);
    report_all();
    wait(4);
    ASSERT_EQ(host_->state().next_round, 1u);
  }
  void close_large(uint64_t round) {
    for (uint8_t member = 0; member < 3; ++member) {
      Bytes bytes(1 << 20);
      for (size_t at = 0; at < bytes.size(); at += 4096) {  // no two chunks are equal
        bytes[at] = static_cast<uint8_t>(at >> 12);
        bytes[at + 1] = member;
        bytes[at + 2] = static_cast<uint8_t>(round);
      }
      offer(member, round, bytes);
    }
    wait(20);
    report_all();
    ASSERT_TRUE(host_->state().opening(round) == nullptr);
  }
  void form_two() {
    begin();
    close_large(0);
    close_large(1);
    ASSERT_EQ(sums_.size(), 2u);
  }
};

TEST_F(HostBehindAThinLine, LeavesSumsToMembersWithFastOnes) {
  down_bytes_s_ = 2e6;
  form_two();
  EXPECT_EQ(sums_[0].bytes, 1u << 20) << "how long it takes is not known yet";
  EXPECT_EQ(sums_[1].bytes, 0u);
  EXPECT_EQ(sums_[1].round, 1u);
}

TEST_F(HostBehindAThinLine, FormsThemWhereSomeLinksAreNotKnown) {
  down_bytes_s_ = 2e6;
  begin();
  close_large(0);
  host_.reset();
  start(9);  // it has read of no join request
  wait(4);
  report_all();
  close_large(1);
  close_large(2);
  EXPECT_EQ(sums_.back().round, 2u);
  EXPECT_EQ(sums_.back().bytes, 1u << 20);
}

TEST_F(HostBehindAThinLine, FormsThemForMembersWithThinnerOnes) {
  down_bytes_s_ = 2e5;
  form_two();
  EXPECT_EQ(sums_[1].bytes, 1u << 20);
}

TEST_F(HostBehindAThinLine, FormsThemIfTheRecipeSaysSo) {
  options_.sums->who = config::Sums::kCoordinator;
  down_bytes_s_ = 2e6;
  form_two();
  EXPECT_EQ(sums_[1].bytes, 1u << 20);
}

TEST_F(HostThatSums, WithoutARuleThereAreNone) {
  options_.sums.reset();
  begin(9);
  close(0);
  EXPECT_TRUE(sums_.empty());
}

}  // namespace
}  // namespace thinwire::serve

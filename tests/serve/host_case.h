// A coordinator's host in virtual time, among members that do what a test says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/couriers/courier_memory.h"
#include "tests/member/written_ledger.h"
#include "thinwire/base/nkey.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::serve {

// Rounds of so many steps and one operation.
class ShortPlan final : public membership::RunPlan {
 public:
  ShortPlan(uint64_t rounds, uint64_t steps) : rounds_(rounds), steps_(steps) {}
  uint64_t workers() const override { return 3; }
  uint64_t batch() const override { return 6; }
  uint64_t overlap() const override { return 0; }
  uint64_t rounds() const override { return rounds_; }
  membership::Opening round(uint64_t number) const override {
    membership::Opening opening;
    opening.round = number;
    opening.first_step = number * steps_;
    opening.last = number + 1 == rounds_;
    opening.steps.assign(steps_, {0.5f, 0.5f});
    opening.operations = {{0, 1 << 20}};
    return opening;
  }

 private:
  uint64_t rounds_, steps_;
};

class HostCase : public testing::Test {
 protected:
  static constexpr uint64_t kRun = 7;

  // T = 100 s: silence 25, takeover 12.5, absent 5, report and retry 2.5, settle 1.
  HostCase() {
    options_.membership.timeout_s = 100;
    options_.founding = {kRun, {}, {}, 500, {signer_->key()}};
    for (const uint8_t number : {100, 101, 102}) {
      members_.emplace_back().signer = member::signer_of(number);
    }
    // Those who say hello together get their ids in the order of their keys.
    std::ranges::sort(members_, {}, [](const Participant& one) { return one.signer->key(); });
    for (Participant& one : members_) {
      one.courier = network_.connect(participant_name(one.signer->key()));
    }
  }

  void start(uint64_t rounds) {
    plan_.emplace(rounds, steps_);
    host_.reset();
    host_ = std::make_unique<CoordinatorHost>(*courier_, *signer_, *plan_, options_);
  }
  // A run of so many rounds, of which the first is open for all three members.
  void begin(uint64_t rounds) {
    start(rounds);
    wait(1);
    for (int member = 0; member < 3; ++member) send(member, join_request(member));
    wait(1);
    report_all();
    ASSERT_EQ(host_->state().next_round, 1u);
  }

  // The host is awake meanwhile.
  void wait(double seconds) {
    for (; seconds > 0; seconds -= 1) sleep(std::min(seconds, 1.0));
  }
  // The same, and these members report that they are there.
  void wait(double seconds, const std::vector<int>& present) {
    for (; seconds > 0; seconds -= 1) {
      for (const int member : present) report(member);
      sleep(std::min(seconds, 1.0));
    }
  }
  // It wakes once, at the end.
  void sleep(double seconds) {
    now_ += seconds;
    network_.run_until(now_);
    for (int turn = 0; turn < 8; ++turn) {  // what it asks for is answered at once
      host_->tick(now_);
      network_.run_until(now_);
    }
  }

  membership::JoinRequest join_request(int member) const {
    return {key(member), std::nullopt, down_bytes_s_};
  }
  void send(int member, membership::Message message) {
    Participant& one = members_[static_cast<size_t>(member)];
    const bool announces = std::holds_alternative<membership::Announcement>(message);
    one.courier->publish(
        announces ? membership::kAnnouncementsTopic : membership::kMembersTopic,
        membership::encode_statement(
            {kRun, one.signer->key(), one.numbers.next(), std::move(message)}, *one.signer));
  }
  // What this coordinator says.
  std::unique_ptr<transport::Subscription> hear_coordinator(
      std::vector<membership::Message>& messages) {
    return members_[0].courier->subscribe(
        "", membership::kCoordinatorsTopic, [&](const std::string&, const Bytes& bytes) {
          auto statement = membership::decode_statement(bytes, kRun, verify);
          if (statement) messages.push_back(std::move(statement->message));
        });
  }
  // It has applied every record there is.
  void report(int member, std::optional<membership::AgreedDigest> digest = {}) {
    send(member, membership::Report{member, host_->state().position, digest});
  }
  void report_all(std::optional<membership::AgreedDigest> digest = {}) {
    for (int member = 0; member < 3; ++member) report(member, digest);
    wait(1);
  }
  transport::BlobId put(int member, const Bytes& blob) {
    return members_[static_cast<size_t>(member)].courier->put(std::make_shared<const Bytes>(blob),
                                                              transport::Priority::kRound,
                                                              [](const Result<void>&) {});
  }
  // Member 0 makes one of what there is now; all agree on this digest.
  void take_snapshot(const membership::AgreedDigest& digest) {
    const membership::Position now = host_->state().position;
    const transport::BlobId id = put(0, {static_cast<uint8_t>(now.sequence), 99});
    send(0, membership::SnapshotReady{{0, now.sequence, id.name, id.bytes}, digest, now.hash});
    wait(1);
    ASSERT_EQ(host_->state().snapshots.rbegin()->first, now.sequence);
  }
  void offer(int member, uint64_t round, const Bytes& payload) {
    const transport::BlobId id = put(member, payload);
    const uint32_t epoch = host_->state().epoch;
    send(member, membership::Offer{member, round, epoch, 0, id.name, id.bytes, {}});
  }
  // All offer a payload of their own, and the round closes.
  void close(uint64_t round) {
    for (int member = 0; member < 3; ++member) offer(member, round, payload(member, round));
    wait(1);
    ASSERT_TRUE(host_->state().opening(round) == nullptr);
  }
  static Bytes payload(int member, uint64_t round) {
    return {static_cast<uint8_t>(member), static_cast<uint8_t>(round), 1};
  }
  bool is_stored(int member, const Bytes& blob) {
    bool stored = false;
    courier_->get(transport::blob_id(blob), {name(member)}, transport::Priority::kRound,
                  [&](const Result<Bytes>& got) { stored = got.has_value(); });
    network_.run_until(now_);
    return stored;
  }
  PublicKey key(int member) const { return members_[static_cast<size_t>(member)].signer->key(); }
  std::string name(int member) const { return participant_name(key(member)); }

  struct Participant {
    std::unique_ptr<Signer> signer;
    std::unique_ptr<transport::Courier> courier;
    membership::StatementNumbers numbers;
  };
  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<Signer> signer_ = member::signer_of(1);
  std::unique_ptr<transport::Courier> courier_ = network_.connect(participant_name(signer_->key()));
  std::vector<Participant> members_;
  HostOptions options_;
  uint64_t steps_ = 1;  // of a round
  std::optional<ShortPlan> plan_;
  std::unique_ptr<CoordinatorHost> host_;
  double now_ = 0;
  double down_bytes_s_ = 0;  // of the members' links, as they say
};

}  // namespace thinwire::serve

#include "thinwire/hosts/shared_keys.h"

#include <gmock/gmock.h>

#include "tests/couriers/courier_memory.h"
#include "tests/tiny_run.h"
#include "thinwire/base/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr int64_t kNow = 1000;

PublicKey fresh_key() { return make_signer(make_seed())->key(); }

// Two coordinators of a run, each with a folder of its own.
class SharedKeysTest : public testing::Test {
 protected:
  SharedKeysTest() {
    for (const char* name : {"here", "there"}) fs::create_directories(folder_ / name);
  }
  KeyRing ring(const char* name) const { return load_key_ring(folder_ / name); }
  void change(const char* name, const std::function<void(KeyRing&)>& change) {
    update_key_ring(folder_ / name, change);
  }
  void settle() {
    for (int i = 0; i < 5; ++i) {
      here_.serve_pending();
      there_.serve_pending();
      network_.run_until(network_.now() + 1);
    }
  }
  void expect_the_same() {
    settle();
    EXPECT_EQ(ring("here").beyond(ring("there")), KeyRing{});
    EXPECT_EQ(ring("there").beyond(ring("here")), KeyRing{});
  }

  const fs::path folder_ = test_folder();
  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<Signer> run_ = make_signer(make_seed());
  const std::unique_ptr<transport::Courier> here_courier_ = network_.connect("here");
  const std::unique_ptr<transport::Courier> there_courier_ = network_.connect("there");
  SharedKeys here_{*here_courier_, *run_, folder_ / "here"};
  SharedKeys there_{*there_courier_, *run_, folder_ / "there"};
};

TEST_F(SharedKeysTest, WhatChangesAnywhereIsEverywhere) {
  const PublicKey token = fresh_key(), key = fresh_key();
  change("here", [&](KeyRing& ring) { ring.tokens.push_back({.key = token}); });
  expect_the_same();
  change("there", [&](KeyRing& ring) { ASSERT_EQ(ring.enrol(token, key, kNow), ""); });
  expect_the_same();
  ASSERT_EQ(ring("here").keys.size(), 1u);
  change("here", [&](KeyRing& ring) { ring.revoke(key_id(token)); });
  expect_the_same();
  EXPECT_TRUE(ring("there").keys[0].revoked);
}

TEST_F(SharedKeysTest, BothMayChangeTheirsAtOnce) {
  for (const char* name : {"here", "there"}) {
    change(name, [&](KeyRing& ring) { ring.tokens.push_back({.key = fresh_key()}); });
  }
  expect_the_same();
  EXPECT_EQ(ring("here").tokens.size(), 2u);
}

TEST_F(SharedKeysTest, AThousandKeysFitIntoSeveralRecords) {
  const PublicKey token = fresh_key();
  change("here", [&](KeyRing& ring) {
    ring.tokens.push_back({.key = token});
    for (int i = 0; i < 1200; ++i) {
      PublicKey key;
      key.bytes[0] = static_cast<uint8_t>(i);
      key.bytes[1] = static_cast<uint8_t>(i >> 8);
      ring.keys.push_back({key, token, Role::kMember, kNow, false});
    }
  });
  expect_the_same();
  EXPECT_EQ(ring("there").keys.size(), 1200u);
}

TEST_F(SharedKeysTest, WhatAnotherKeySignedCountsForNothing) {
  KeyRing forged;
  forged.tokens.push_back({.key = fresh_key()});
  const auto stranger = make_signer(make_seed());
  there_courier_->append(kKeysStream, 0, encode_shared_keys(forged, *stranger),
                         [](const Result<uint64_t>&) {});
  settle();
  EXPECT_EQ(ring("here"), KeyRing{});
  change("here", [&](KeyRing& ring) { ring.tokens.push_back({.key = fresh_key()}); });
  expect_the_same();
  EXPECT_EQ(ring("there").tokens.size(), 1u);
}

TEST(SharedKeysMessage, AnyBytesGiveKeysOrAReason) {
  const auto run = make_signer(make_seed());
  KeyRing ring;
  ring.tokens.push_back({.key = fresh_key(), .role = Role::kObserver, .expires = 7});
  const Bytes good = encode_shared_keys(ring, *run);
  ASSERT_TRUE(decode_shared_keys(good, run->key()));
  EXPECT_EQ(*decode_shared_keys(good, run->key()), ring);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(decode_shared_keys(std::span(good).first(size), run->key())) << size;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    Bytes altered = good;
    altered[i] ^= 1;
    EXPECT_FALSE(decode_shared_keys(altered, run->key())) << i;
  }
}

}  // namespace
}  // namespace thinwire::hosts

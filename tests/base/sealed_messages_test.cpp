#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "thinwire/base/secrets.h"

namespace thinwire {
namespace {

Bytes text(size_t size) {
  Bytes bytes(size);
  std::iota(bytes.begin(), bytes.end(), uint8_t{1});
  return bytes;
}

TEST(Sealed, OnlyTheReceiverOpensWhatWasSealed) {
  const KeyPair receiver, other;
  for (const size_t size : {0, 1, 100, 200'000}) {
    const Bytes sealed = seal(receiver.key(), text(size));
    EXPECT_EQ(sealed.size(), size + kSealBytes);
    EXPECT_EQ(receiver.open(sealed), text(size));
    EXPECT_FALSE(other.open(sealed));
  }
}

TEST(Sealed, NothingOfTheMessageIsInIt) {
  const KeyPair receiver;
  const Bytes sealed = seal(receiver.key(), text(64));
  const Bytes part = {1, 2, 3, 4};
  EXPECT_EQ(std::search(sealed.begin(), sealed.end(), part.begin(), part.end()), sealed.end());
  EXPECT_NE(seal(receiver.key(), text(64)), sealed) << "each has a key of its own";
}

TEST(Sealed, WhatWasChangedOrCutOffIsRefused) {
  const KeyPair receiver;
  const Bytes sealed = seal(receiver.key(), text(10));
  for (size_t i = 0; i < sealed.size(); ++i) {
    Bytes changed = sealed;
    changed[i] ^= 4;
    EXPECT_FALSE(receiver.open(changed)) << i;
    EXPECT_FALSE(receiver.open(std::span(sealed).first(i))) << i;
  }
}

TEST(Sealed, AKeyThatIsNoneIsRefused) { EXPECT_THROW(seal(AgreementKey{}, text(3)), Error); }

}  // namespace
}  // namespace thinwire

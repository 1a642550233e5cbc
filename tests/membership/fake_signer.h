// Signatures that cost little and prove nothing, for tests with millions of records.
#pragma once

#include <algorithm>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/signature.h"

namespace thinwire::membership {

inline Sha256 hash_of(uint64_t number) {
  return sha256(as_bytes(std::span<const uint64_t>(&number, 1)));
}

inline PublicKey fake_key(uint64_t number) {
  PublicKey key;
  std::ranges::copy(as_bytes(std::span<const uint64_t>(&number, 1)), key.bytes.begin());
  return key;
}

inline Signature fake_signature(const PublicKey& key, std::span<const uint8_t> message) {
  Bytes both(key.bytes.begin(), key.bytes.end());
  ByteWriter(both).put_bytes(message);
  const Sha256 hash = sha256(both);
  Signature signature;
  std::ranges::copy(hash.bytes, signature.bytes.begin());
  return signature;
}

inline bool fake_verify(const PublicKey& key, std::span<const uint8_t> message,
                        const Signature& signature) {
  return fake_signature(key, message) == signature;
}

class FakeSigner final : public Signer {
 public:
  explicit FakeSigner(uint64_t number) : key_(fake_key(number)) {}
  PublicKey key() const override { return key_; }
  Signature sign(std::span<const uint8_t> message) const override {
    return fake_signature(key_, message);
  }

 private:
  PublicKey key_;
};

}  // namespace thinwire::membership

// Who wrote a record: Ed25519 signatures (RFC 8032).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "thinwire/membership/record.h"

namespace thinwire::membership {

struct Signature {
  std::array<uint8_t, 64> bytes{};
  bool operator==(const Signature&) const = default;
};

// A private key. Any thread.
class Signer {
 public:
  virtual ~Signer() = default;
  virtual PublicKey key() const = 0;
  virtual Signature sign(std::span<const uint8_t> message) const = 0;
};

using Seed = std::array<uint8_t, 32>;

// Ed25519 by OpenSSL. Throws Error where that fails.
std::unique_ptr<Signer> make_signer(const Seed& seed);

// Any thread. Total: a key that is no point of the curve verifies nothing.
bool verify(const PublicKey& key, std::span<const uint8_t> message, const Signature& signature);

}  // namespace thinwire::membership

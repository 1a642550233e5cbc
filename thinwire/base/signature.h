// Ed25519 signatures (RFC 8032): prove who signed a message.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>

namespace thinwire {

// Identifies a member or a coordinator.
struct PublicKey {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const PublicKey&) const = default;
};

struct Signature {
  std::array<uint8_t, 64> bytes{};
  bool operator==(const Signature&) const = default;
};

// Signs with a private key. Any thread.
class Signer {
 public:
  virtual ~Signer() = default;
  virtual PublicKey key() const = 0;
  virtual Signature sign(std::span<const uint8_t> message) const = 0;
};

// The secret that a private key is derived from. Anyone who has it can sign with that key.
using Seed = std::array<uint8_t, 32>;

// Made from the system's random numbers. Throws Error if none are available.
Seed make_seed();

// Ed25519 through OpenSSL. Throws Error if OpenSSL fails.
std::unique_ptr<Signer> make_signer(const Seed& seed);

// Any thread. Accepts any input: returns false if the key is not a point on the curve.
bool verify(const PublicKey& key, std::span<const uint8_t> message, const Signature& signature);

}  // namespace thinwire

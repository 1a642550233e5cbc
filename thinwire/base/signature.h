// Ed25519 signatures (RFC 8032): who said something.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>

namespace thinwire {

// Who a member or a coordinator is.
struct PublicKey {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const PublicKey&) const = default;
};

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

// What a private key is made of; whoever has it is that key's owner.
using Seed = std::array<uint8_t, 32>;

// From the system's random numbers. Throws Error where it has none.
Seed make_seed();

// Ed25519 by OpenSSL. Throws Error where that fails.
std::unique_ptr<Signer> make_signer(const Seed& seed);

// Any thread. Total: a key that is no point of the curve verifies nothing.
bool verify(const PublicKey& key, std::span<const uint8_t> message, const Signature& signature);

}  // namespace thinwire

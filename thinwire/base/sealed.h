// Messages that only one receiver can read, over servers and past participants that see all
// messages. The sender agrees on a key with the receiver's by Diffie-Hellman (X25519, RFC 7748)
// with a key pair of its own for each message, and encrypts with ChaCha20-Poly1305 (RFC 8439). Who
// sent it is not said: senders sign besides.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"

namespace thinwire {

using SealKey = std::array<uint8_t, 32>;  // a public key

// By which a sealed message is longer.
inline constexpr size_t kSealBytes = 32 + 16;

// A receiver's key pair, made at random. Thread-safe.
class SealReceiver {
 public:
  SealReceiver();  // throws Error if there are no random numbers
  ~SealReceiver();
  SealReceiver(const SealReceiver&) = delete;
  SealReceiver& operator=(const SealReceiver&) = delete;

  const SealKey& key() const { return key_; }
  // Total: any bytes give what was sealed for this key, or kCorruptPayload.
  Result<Bytes> open(std::span<const uint8_t> sealed) const;

 private:
  struct Pair;
  std::unique_ptr<Pair> pair_;
  SealKey key_{};
};

// The sender's public key, the encrypted message, and its tag of 16 bytes. Throws Error if there
// are no random numbers or if `receiver` is no key.
Bytes seal(const SealKey& receiver, std::span<const uint8_t> message);

}  // namespace thinwire

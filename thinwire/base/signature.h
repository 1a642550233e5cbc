// Ed25519 signatures (RFC 8032), which prove who signed a message, and signed messages.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"

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

// The envelope of signed messages: what they begin and end with.
//
//   magic (4 bytes) | version (u16) | content | Ed25519 signature of all bytes before it (64)
struct MessageFormat {
  std::string_view magic;
  uint16_t version = 1;
  std::string_view name;  // in errors: "a statement"
};

// Views into a message. Whoever opened it checks its signature once the content says whose it is.
struct SignedMessage {
  std::span<const uint8_t> content;
  std::span<const uint8_t> signed_part;  // magic, version and content
  Signature signature;
};

// Appends magic and version; the content follows.
void begin_message(Bytes& bytes, const MessageFormat& format);
// Appends the signature of everything that is there.
void sign_message(Bytes& bytes, const Signer& signer);

// kCorruptPayload, with a message that names the format: it is too short, or has another magic or
// version.
Result<SignedMessage> open_message(std::span<const uint8_t> bytes, const MessageFormat& format);

// The failure of a message that is not what the format says: "not a statement: it is truncated".
tl::unexpected<Failure> not_a_message(const MessageFormat& format, std::string_view why);

}  // namespace thinwire

// The envelope of signed messages: what they begin and end with.
//
//   magic (4 bytes) | version (u16) | content | Ed25519 signature of all bytes before it (64)
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"

namespace thinwire {

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

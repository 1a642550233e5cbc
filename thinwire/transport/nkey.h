// NKeys: Ed25519 keys in the text that NATS servers read and print (github.com/nats-io/nkeys). A
// byte or two that say what the key is for, the key, and a CRC-16, in base32 without padding; a
// user's public key begins with U, its seed with SU.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/base/signature.h"

namespace thinwire::transport {

// As the upper five bits of the first character's byte.
enum class NKeyKind : uint8_t { kAccount = 0, kServer = 13 << 3, kUser = 20 << 3 };

std::string encode_public_key(NKeyKind kind, const PublicKey& key);
std::string encode_seed(NKeyKind kind, const Seed& seed);

// Total: nothing for any text that is not a key of this kind, its check sum included.
std::optional<PublicKey> decode_public_key(NKeyKind kind, std::string_view text);
std::optional<Seed> decode_seed(NKeyKind kind, std::string_view text);

}  // namespace thinwire::transport

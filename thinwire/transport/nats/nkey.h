// NKeys: Ed25519 keys in the text form that NATS servers read and print (github.com/nats-io/nkeys).
// A key is one or two bytes that say what it is for, the key itself and a CRC-16, all in base32
// without padding. A user's public key begins with U, its seed with SU.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/base/signature.h"

namespace thinwire::transport {

// The first byte of a public key. Its upper five bits are the first character of the text.
enum class NKeyKind : uint8_t { kAccount = 0, kOperator = 14 << 3, kUser = 20 << 3 };

std::string encode_public_key(NKeyKind kind, const PublicKey& key);
std::string encode_seed(NKeyKind kind, const Seed& seed);

// The courier name of whoever has this key: its text as a user.
std::string participant_name(const PublicKey& key);

// Total: nothing for any text that is not a key of this kind with a valid checksum.
std::optional<PublicKey> decode_public_key(NKeyKind kind, std::string_view text);
std::optional<Seed> decode_seed(NKeyKind kind, std::string_view text);

}  // namespace thinwire::transport

// NKeys: Ed25519 keys in the text form that NATS servers read and print (github.com/nats-io/nkeys).
// A key is one or two bytes that say what it is for, the key itself and a CRC-16, all in base32
// without padding. A user's public key begins with U, its seed with SU.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/bytes.h"
#include "thinwire/base/signature.h"

namespace thinwire {

// Base32 as in RFC 4648, upper case, without padding.
std::string encode_base32(std::span<const uint8_t> bytes);
// Returns nothing for text that encode_base32 would not produce.
std::optional<Bytes> decode_base32(std::string_view text);

// CRC-16/XMODEM: polynomial 0x1021, initial value 0, most significant bit first.
uint16_t crc16(std::span<const uint8_t> bytes);

// The first byte of a public key. Its upper five bits are the first character of the text.
enum class NKeyKind : uint8_t { kAccount = 0, kOperator = 14 << 3, kUser = 20 << 3 };

std::string encode_public_key(NKeyKind kind, const PublicKey& key);
std::string encode_seed(NKeyKind kind, const Seed& seed);

// The courier name of whoever has this key: its text as a user.
std::string participant_name(const PublicKey& key);
// What messages call it: the first ten characters of that after the U, which all begin with.
std::string key_id(const PublicKey& key);

// Total: nothing for any text that is not a key of this kind with a valid checksum.
std::optional<PublicKey> decode_public_key(NKeyKind kind, std::string_view text);
std::optional<Seed> decode_seed(NKeyKind kind, std::string_view text);

}  // namespace thinwire

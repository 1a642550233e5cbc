// What somebody who may join a run is given: where the server is, which authority vouches for it,
// and a secret that admits one newcomer, once. One printable string, to be kept like a password.
// docs/formats.md, "Join tokens".
#pragma once

#include <string>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"

namespace thinwire::transport {

struct JoinToken {
  std::string address;    // HOST:PORT
  std::string run;        // a courier name
  std::string authority;  // certificate, PEM
  // The seed of the key with which a newcomer connects; it never crosses the wire. The server has a
  // user with this key for the token: when that user expires or is revoked, so is the token.
  // Admitting somebody uses the token up.
  Seed secret{};
  bool operator==(const JoinToken&) const = default;
};

// Throws UsageError for an invalid address or run, Error if the authority is not a certificate.
std::string encode_join_token(const JoinToken& token);

// Total. A failure says what is wrong and what a token looks like, but reveals nothing of the
// secret. Spaces and line ends around and inside the token are skipped, because terminals break
// long lines.
Result<JoinToken> decode_join_token(std::string_view text);

}  // namespace thinwire::transport

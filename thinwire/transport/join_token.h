// What somebody who may join a run is given: where the server is, which authority vouches for it,
// and a secret that lets one in once. One printable string, to be kept like a password.
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
  // Of the key with which a newcomer connects; it never crosses the wire. The server's user of
  // this key is the token's: its expiry and revocation are the token's, and whoever was let in by
  // it uses it up.
  Seed secret{};
  bool operator==(const JoinToken&) const = default;
};

// Throws UsageError for an address or a run that cannot be, Error for an authority that is none.
std::string encode_join_token(const JoinToken& token);

// Total; a failure says what is wrong and what a token looks like, and nothing of the secret.
// Spaces and line ends around and in it are skipped, for terminals break long lines.
Result<JoinToken> decode_join_token(std::string_view text);

}  // namespace thinwire::transport

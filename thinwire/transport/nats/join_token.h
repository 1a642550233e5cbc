// What somebody needs to join a run: where its servers are, which authority vouches for them, and a
// secret that admits newcomers. One printable string, to be kept like a password. docs/formats.md,
// "Join tokens".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"

namespace thinwire::transport {

struct JoinToken {
  std::string address;    // HOST:PORT; empty: the run has a mailbox instead of servers
  std::string run;        // a courier name
  std::string authority;  // certificate, PEM; on a cluster, empty: those that the system trusts;
                          // empty for a mailbox
  // The seed of the key with which a newcomer connects; it never crosses the wire. A run's own
  // server has a user with this key for the token: when that user expires or is revoked, so is the
  // token.
  Seed secret{};
  // On a cluster: more addresses, and the JWT with which the secret's key may connect (nats_jwt.h).
  // Empty: the run has a server of its own.
  std::vector<std::string> more_addresses = {};
  std::string jwt = {};
  bool sites = false;  // each server of the cluster is a site's
  bool operator==(const JoinToken&) const = default;
};

// Whether it is HOST:PORT with a port from 1 to 65535, of the characters that addresses have. IPv6
// addresses are in brackets.
bool is_token_address(std::string_view text);

// Throws UsageError for an invalid address, run or JWT, Error if the authority is not a
// certificate.
std::string encode_join_token(const JoinToken& token);

// Total. A failure says what is wrong and what a token looks like, but reveals nothing about the
// secret. Spaces and line ends around and inside the token are skipped, because terminals break
// long lines.
Result<JoinToken> decode_join_token(std::string_view text);

}  // namespace thinwire::transport

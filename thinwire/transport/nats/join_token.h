// What somebody needs to join a run: a secret that admits newcomers, whose run it is, and which
// authority vouches for its servers. One printable string, to be kept like a password.
// docs/formats.md, "Join tokens".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/nats/certificates.h"

namespace thinwire::transport {

// A secret of 128 bits, which is how hard its key is to guess anyhow: the rest of the seed is zero,
// so that it need not be in a token.
Seed make_token_secret();
bool is_token_secret(const Seed& seed);

struct JoinToken {
  std::string run;  // a courier name; unless it is on a cluster, that of a key
  // The seed of the key with which a newcomer connects; it never crosses the wire. A run's own
  // server has a user with this key for the token: when that user expires or is revoked, so is the
  // token. Made by make_token_secret, unless the run is on a cluster.
  Seed secret{};
  // The fingerprint of the authority of the run's own server; none on a cluster and for a mailbox.
  std::optional<Fingerprint> authority_fingerprint = {};
  // On a cluster: HOST:PORT of its servers, the JWT with which the secret's key may connect
  // (nats_jwt.h), and the authority's certificate, PEM; empty: those that the system trusts.
  std::vector<std::string> servers = {};
  std::string jwt = {};
  std::string authority = {};
  bool sites = false;  // each server of the cluster is a site's
  bool operator==(const JoinToken&) const = default;

  bool is_of_cluster() const { return !jwt.empty(); }
  bool is_of_mailbox() const { return !is_of_cluster() && !authority_fingerprint; }
};

// Whether it is HOST:PORT with a port from 1 to 65535, of the characters that addresses have. IPv6
// addresses are in brackets.
bool is_token_address(std::string_view text);

// At most 100 characters, unless the run is on a cluster. Throws UsageError for an invalid address,
// run or JWT, Error if the authority is not a certificate.
std::string encode_join_token(const JoinToken& token);

// Total. A failure says what is wrong and what a token looks like, but reveals nothing about the
// secret. Spaces and line ends around and inside the token are skipped, because terminals break
// long lines.
Result<JoinToken> decode_join_token(std::string_view text);

}  // namespace thinwire::transport

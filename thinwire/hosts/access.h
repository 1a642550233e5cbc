// How to reach a run from outside: its address, the authority that signed its server's certificate,
// and a token; or the folder of its mailbox and a token. All functions throw on failure, with
// messages meant for users.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// How long to wait for an answer from a server or a coordinator.
inline constexpr double kTimeoutSeconds = 30;
// Within this time all servers of a cluster have what one of them has stored.
inline constexpr double kSettleSeconds = 1;
// Largest size of a blob of a run; snapshots are the largest blobs.
inline constexpr uint64_t kMaxBlobBytes = uint64_t{1} << 38;

// How long to wait.
struct Patience {
  double answer_s = kTimeoutSeconds;  // for an answer
  double arrival_s = 0;               // for a blob that is not there yet
};
// A mailbox may be synchronised every few minutes only, and large files take their time.
inline constexpr Patience kMailboxPatience{600, 3600};

// Who connects.
struct Identity {
  Seed seed{};
  std::string jwt;  // on a cluster (transport/nats/nats_jwt.h); empty: the server knows the key
};

struct Access {
  std::vector<std::string> servers;  // HOST:PORT; with a mailbox, the path of its folder
  std::string authority;             // certificate, PEM; empty: those that the system trusts
  std::string run;                   // the run's courier name
  PublicKey founder;                 // the key that this name is derived from
  Identity newcomer;                 // the token's
  bool mailbox = false;
  bool sites = false;  // each of the cluster's servers is a site's; `servers` has only this one's
  double wait_s = 0;   // how long to try to reach a server, while none answers; 0: one attempt
  Patience patience() const { return mailbox ? kMailboxPatience : Patience(); }
  const std::string& address() const { return servers.front(); }
};

// Throws UsageError for a malformed or truncated token, for an address that is not HOST:PORT, and
// for a file without a certificate. `address` is tried before the token's addresses on a cluster,
// and replaces the token's on a run's own server and where each server is a site's. Empty `ca`: the
// token's authority. If the token is one of a mailbox, `address` is the path of its folder on this
// machine, which must exist.
Access parse_access(const std::string& address, const std::string& token, const fs::path& ca);

// Opens the mailbox of the run that `founder` coordinates, for a participant. `leaves_nothing`: its
// files are removed at the end.
std::unique_ptr<transport::Courier> open_mailbox(const fs::path& folder, const PublicKey& founder,
                                                 const std::string& self,
                                                 bool leaves_nothing = false);

// Connects. With a mailbox, a newcomer has a name of its own that nobody else has, for that time.
// Throws Error with the likely cause if the server refuses, if no machine has the address's name,
// or if nobody answers for access.wait_s; prints a message once it waits. One attempt takes up to
// twice kTimeoutSeconds for each server.
std::unique_ptr<transport::Courier> connect(const Access& access, const Identity& as);

// Like connect, but returns null if the server refuses this identity.
std::unique_ptr<transport::Courier> try_connect(const Access& access, const Identity& as);

// Fetches a blob from its holder. Throws Error if that fails or `stop`, which may be null, is set.
Bytes fetch_blob(transport::Courier& courier, const transport::BlobId& blob,
                 const PublicKey& holder, const Patience& patience, const std::atomic<bool>* stop);

// The run's description, which its founder signed. A newcomer's courier may not read it from a
// server.
RunDescription fetch_description(transport::Courier& courier, const PublicKey& founder,
                                 const Patience& patience);

}  // namespace thinwire::hosts

// How to reach a run from outside: its address, the authority that vouches for its server, and a
// token. Everything throws on failure, with messages meant for users.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// How long to wait for a server or a coordinator that does not answer before giving up.
inline constexpr double kPatienceSeconds = 30;
// No blob of a run is longer: snapshots are the longest.
inline constexpr uint64_t kMaxBlobBytes = uint64_t{1} << 38;

struct Access {
  std::string address;    // HOST:PORT
  std::string authority;  // certificate, PEM
  std::string run;        // the run's courier name
  PublicKey founder;      // the key from which that name is made
  Seed secret{};          // the token's
};

// Throws UsageError for a malformed or truncated token, or for a file without a certificate. Empty
// `address`: the token's; empty `ca`: the token's authority.
Access parse_access(const std::string& address, const std::string& token, const fs::path& ca);

// Connects as the owner of `seed`. Throws Error, saying what may be the cause, when the server
// refuses or nobody answers for kPatienceSeconds.
std::unique_ptr<transport::Courier> connect(const Access& access, const Seed& seed);

// Like connect, but null if the server refuses this key because it does not know it, or no longer
// does.
std::unique_ptr<transport::Courier> try_connect(const Access& access, const Seed& seed);

// Fetches a blob from those who stored it; throws Error if that fails or `stop` is set.
Bytes fetch_blob(transport::Courier& courier, const transport::BlobId& blob,
                 const PublicKey& holder, const std::atomic<bool>* stop);

// The run's description, as its founder signed it. For members' couriers.
RunDescription fetch_description(transport::Courier& courier, const Access& access);

}  // namespace thinwire::hosts

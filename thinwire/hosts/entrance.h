// How participants reach a run, as stored in its folder: the addresses of its servers, and, on a
// cluster, the account whose key admits them; or the folder of its mailbox. docs/formats.md,
// "Folder of a run that is served".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/key_ring.h"

namespace thinwire::hosts {

// What carries a run between its hosts.
enum class Carrier : uint8_t { kOwnServer, kCluster, kMailbox };

struct Entrance {
  std::vector<std::string> servers;  // HOST:PORT, at which members reach them; none with a mailbox
  std::string authority;             // PEM; empty, on a cluster only: those that the system trusts
  std::optional<transport::AccountKey> account;  // on a cluster
  fs::path mailbox = {};                         // on the coordinator's machine; empty: none
  bool sites = false;                            // as of ClusterOptions

  Carrier carrier() const {
    if (!mailbox.empty()) return Carrier::kMailbox;
    return account ? Carrier::kCluster : Carrier::kOwnServer;
  }
};

// The sites of the servers, in the same order; none unless they are sites.
std::vector<std::string> sites_of(const Entrance& entrance);

// Reads what ClusterOptions name. Throws UsageError as the functions of cluster.h do, and for a CA
// file that is not a certificate.
Entrance open_cluster(const ClusterOptions& options);

// What carries the run in a server's folder; nothing if it has not been served yet.
std::optional<Carrier> carrier_of(const fs::path& server_folder);

// Stores the entrance, and loads it again; the account's key stays in its own file. Throws Error if
// a file is damaged or missing, and UsageError as open_cluster does.
void store_entrance(const fs::path& server_folder, const Entrance& entrance,
                    const ClusterOptions& cluster);
Entrance load_entrance(const fs::path& server_folder);

// A participant's JWT; empty for a run with a server of its own. `run`: the run's courier name;
// `expires`: seconds since 1970, 0: never.
std::string jwt_of(const Entrance& entrance, const std::string& run,
                   const transport::NatsUser& user);

// The text of a token whose secret is `secret`.
std::string token_text(const Entrance& entrance, const std::string& run, const Seed& secret,
                       int64_t expires);

// What a request to be enrolled says: with which token, and as what. The token's key has signed it,
// which proves that the newcomer has the token where no server checks who sends what, as in a
// mailbox. docs/formats.md, "Requests and answers".
struct Enrolment {
  PublicKey token;            // that signed it
  Role role = Role::kMember;  // that the newcomer wants to have
};

// That `key` may be enrolled in the run with this token.
Bytes encode_enrolment(const PublicKey& run, const PublicKey& key, const Signer& token, Role role);

// Total. kCorruptPayload for anything else, and for an enrolment of another key or in another run.
Result<Enrolment> decode_enrolment(std::span<const uint8_t> bytes, const PublicKey& run,
                                   const PublicKey& key);

}  // namespace thinwire::hosts

// How participants reach a run, as stored in its folder: the addresses of its servers, and, on a
// cluster, the account whose key admits them; or the folder of its mailbox. docs/formats.md,
// "Folder of a run that is served".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/key_ring.h"

namespace thinwire::hosts {

// What carries a run between its hosts.
enum class ServedBy : uint8_t { kOwnServer, kCluster, kMailbox };

class Entrance {
 public:
  virtual ~Entrance() = default;

  // What members name to join: HOST:PORT, or a folder on the coordinator's machine.
  virtual std::string address() const = 0;
  // Where the run is served, for users, and what in the command to join stands for something else
  // elsewhere; the latter begins with a comma or is empty.
  virtual std::string served_at() const { return address(); }
  virtual std::string hint() const { return ""; }
  // Where each server is a site's, the sites of the servers; else none.
  virtual std::vector<std::string> sites() const { return {}; }
  // The file with the certificate of the run's authority; empty: there is none.
  virtual fs::path authority_file(const fs::path& server_folder) const = 0;

  // A participant's JWT, where one decides who may connect; else empty. `run`: the run's courier
  // name.
  virtual std::string jwt(const std::string& run, const transport::NatsUser& user) const;
  // The text of a token whose secret is `secret`; `expires`: seconds since 1970, 0: never.
  virtual std::string token(const std::string& run, const Seed& secret, int64_t expires) const = 0;
  // What else is to be done once these keys were revoked, for users; empty: nothing.
  virtual std::string after_revoking(const std::vector<PublicKey>& keys) const;

  // So that load_entrance finds it.
  virtual void store(const fs::path& server_folder) const = 0;
};

class OwnServerEntrance final : public Entrance {
 public:
  // HOST:PORT at which members reach it, and its authority, PEM, which the server itself stores.
  OwnServerEntrance(std::string address, std::string authority)
      : address_(std::move(address)), authority_(std::move(authority)) {}

  std::string address() const override { return address_; }
  fs::path authority_file(const fs::path& server_folder) const override;
  std::string token(const std::string& run, const Seed& secret, int64_t expires) const override;
  void store(const fs::path& server_folder) const override;

 private:
  const std::string address_, authority_;
};

class ClusterEntrance final : public Entrance {
 public:
  // Reads what the options name. Throws UsageError as the functions of cluster.h do, and for a CA
  // file that is not a certificate.
  explicit ClusterEntrance(const ClusterOptions& options);

  const std::vector<std::string>& servers() const { return servers_; }  // HOST:PORT
  const std::string& authority() const { return authority_; }           // PEM; empty: the system's
  const transport::AccountKey& account() const { return account_; }

  std::string address() const override { return servers_.front(); }
  std::string served_at() const override;
  std::string hint() const override;
  std::vector<std::string> sites() const override;
  fs::path authority_file(const fs::path& server_folder) const override;
  std::string jwt(const std::string& run, const transport::NatsUser& user) const override;
  std::string token(const std::string& run, const Seed& secret, int64_t expires) const override;
  std::string after_revoking(const std::vector<PublicKey>& keys) const override;
  void store(const fs::path& server_folder) const override;

 private:
  const ClusterOptions options_;
  const std::vector<std::string> servers_;
  const std::string authority_;
  const transport::AccountKey account_;
};

class MailboxEntrance final : public Entrance {
 public:
  explicit MailboxEntrance(fs::path folder) : folder_(std::move(folder)) {}

  std::string address() const override { return folder_.string(); }
  std::string hint() const override;
  fs::path authority_file(const fs::path& /*server_folder*/) const override { return {}; }
  std::string token(const std::string& run, const Seed& secret, int64_t expires) const override;
  void store(const fs::path& server_folder) const override;

 private:
  const fs::path folder_;
};

// What carries the run in a server's folder; nothing if it has not been served yet.
std::optional<ServedBy> served_by(const fs::path& server_folder);

// The entrance that was stored there; an account's key is in its own file. Throws Error if a file
// is damaged or missing, and UsageError as ClusterEntrance does.
std::unique_ptr<Entrance> load_entrance(const fs::path& server_folder);

// What a request to be enrolled says: with which token, and as what. The token's key has signed it,
// which proves that the newcomer has the token where no server checks who sends what, as in a
// mailbox. docs/formats.md, "Requests and answers".
struct Enrolment {
  PublicKey token;            // that signed it
  Role role = Role::kMember;  // that the newcomer wants to have
  std::string machine;        // what its owner calls it (why_no_machine_name); may be empty
};

inline constexpr size_t kMaxMachineName = 32;
// What is wrong with the name of a machine, which is shown on others' terminals; empty: nothing. It
// has up to so many characters of ASCII that print.
std::string why_no_machine_name(std::string_view name);

// The token's word that `key` may be enrolled in the run.
Bytes encode_enrolment(const PublicKey& run, const PublicKey& key, const Signer& token, Role role,
                       std::string_view machine);

// Total. kCorruptPayload for anything else, and for an enrolment of another key or in another run.
Result<Enrolment> decode_enrolment(std::span<const uint8_t> bytes, const PublicKey& run,
                                   const PublicKey& key);

}  // namespace thinwire::hosts

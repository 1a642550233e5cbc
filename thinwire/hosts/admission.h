// Who may take part in a run that is being served, by the key ring in its folder, which may change
// meanwhile.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/transport/nats/nats_permissions.h"

namespace thinwire::hosts {

// Used by one thread, except for what says otherwise.
class Admission {
 public:
  // Adds the ready file's token to the ring unless it is there. The token admits any number of
  // members for `token_days`; 0: without limit.
  Admission(fs::path run_folder, double token_days);

  // The secret of that token, and when it expires: seconds since 1970; 0: never.
  const Seed& token() const { return token_; }
  int64_t token_expires() const { return token_expires_; }

  // Who may connect, besides coordinators.
  std::vector<transport::NatsUser> users() const { return ring_.users(); }
  // Enrols a key with a token, and returns its user; kRefused with the reason.
  Result<transport::NatsUser> enrol(const PublicKey& token, const PublicKey& key);
  // Whether the key was enrolled and not revoked.
  bool is_enrolled(const PublicKey& key) const;
  // Revokes a key that was enrolled.
  void revoke(const PublicKey& key);
  // Whether the ring has changed since the last call.
  bool update();
  // Any thread.
  bool is_revoked(const PublicKey& key) const;
  // Any thread. Whether the key is enrolled as a member's and not revoked.
  bool is_member(const PublicKey& key) const;
  // Any thread. Likewise as an auditor's.
  bool is_auditor(const PublicKey& key) const;
  // Whether the key is enrolled, or a token's that is valid now.
  bool is_known(const PublicKey& key) const;

 private:
  void load();

  const fs::path run_folder_;
  Seed token_{};
  int64_t token_expires_ = 0;
  uint64_t stamp_ = 0;
  KeyRing ring_;
  mutable std::mutex mutex_;  // guards what follows
  std::set<PublicKey> revoked_;
  std::set<PublicKey> members_;
  std::set<PublicKey> auditors_;
};

}  // namespace thinwire::hosts

// A member's connection to its run: its key, in run.dir/member/, which is enrolled with a token the
// first time, the courier, and requests to the coordinator. docs/hosts.md, "Joining".
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/checkpoint/folder_claim.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/join_run.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

inline constexpr const char* kOwnFolder = "member";  // of run.dir; only its owner may read it
inline constexpr const char* kRunFile = "run";       // in it: the run's name

// Used by one thread.
class MemberConnection {
 public:
  // `options` must outlive it; `folder`: run.dir, which it claims. Throws Error if the run cannot
  // be reached or does not admit this machine, and as FolderClaim does.
  MemberConnection(const JoinOptions& options, fs::path folder);

  transport::Courier& courier() { return *courier_; }
  const Signer& signer() const { return *signer_; }
  RequestClient& requests() { return *requests_; }

 private:
  fs::path own() const { return folder_ / kOwnFolder; }
  // Its key, which is made the first time.
  Identity claim_folder();
  // With a coordinator that is down, or slow to read its mailbox.
  RequestClient::CoordinatorWait patience(double least_s = 0) const;
  // Returns the key's JWT, or an empty string if the server itself knows the key.
  std::string enrol(transport::Courier& courier);

  const JoinOptions& options_;
  Access access_;
  const fs::path folder_;
  std::optional<checkpoint::FolderClaim> claim_;
  std::unique_ptr<Signer> signer_;
  std::unique_ptr<transport::Courier> courier_;
  std::optional<RequestClient> requests_;  // destroyed first
};

}  // namespace thinwire::hosts

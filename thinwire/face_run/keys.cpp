#include "thinwire/keys.h"

#include "thinwire/base/nkey.h"
#include "thinwire/hosts/key_ring.h"

namespace thinwire {
namespace {

hosts::Role inner_role(KeyRole role) {
  switch (role) {
    case KeyRole::kObserver:
      return hosts::Role::kObserver;
    case KeyRole::kAuditor:
      return hosts::Role::kAuditor;
    case KeyRole::kMember:
      break;
  }
  return hosts::Role::kMember;
}

KeyRole outer_role(hosts::Role role) {
  switch (role) {
    case hosts::Role::kObserver:
      return KeyRole::kObserver;
    case hosts::Role::kAuditor:
      return KeyRole::kAuditor;
    case hosts::Role::kMember:
      break;
  }
  return KeyRole::kMember;
}

}  // namespace

std::string issue_token(const std::filesystem::path& run_folder, const TokenOptions& options) {
  return hosts::issue_token(run_folder, inner_role(options.role), options.days, options.single_use);
}

std::vector<RunKey> list_keys(const std::filesystem::path& run_folder) {
  const hosts::KeyRing ring = hosts::keys_of_run(run_folder);
  std::vector<RunKey> all;
  for (const hosts::IssuedToken& token : ring.tokens) {
    all.push_back({.id = key_id(token.key),
                   .token = true,
                   .role = outer_role(token.role),
                   .since = token.issued,
                   .expires = token.expires,
                   .single_use = token.single_use,
                   .revoked = token.revoked});
  }
  for (const hosts::EnrolledKey& key : ring.keys) {
    all.push_back({.id = key_id(key.key),
                   .role = outer_role(key.role),
                   .since = key.enrolled,
                   .revoked = key.revoked,
                   .enrolled_with = key_id(key.token),
                   .member = key.member,
                   .machine = key.machine});
  }
  return all;
}

std::string revoke_key(const std::filesystem::path& run_folder, const std::string& id) {
  return hosts::revoke_keys(run_folder, id);
}

}  // namespace thinwire

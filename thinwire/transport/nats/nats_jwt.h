// Who may do what on the servers of a run, and how that is written for servers in operator mode.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/signature.h"
#include "thinwire/transport/nats/nats_subjects.h"

namespace thinwire::transport {

// docs/security.md says what each role is trusted with.
enum class NatsRole : uint8_t {
  kCoordinator,  // creates and purges stores, appends records
  kMember,       // publishes under its own name, reads everything in its run
  kNewcomer,     // publishes under its own name, receives what is addressed to it
  kObserver,     // reads records and statements
  kAuditor,      // publishes statements under its own name, reads everything in its run
};

struct NatsUser {
  std::string name;  // a courier name
  PublicKey key;
  NatsRole role = NatsRole::kMember;
  int64_t expires = 0;  // seconds since 1970; 0: never
  bool revoked = false;
};

// Subjects, perhaps with wildcards; nothing else is allowed.
struct NatsPermissions {
  std::vector<std::string> publish;
  std::vector<std::string> subscribe;
};

// `streams`: all streams of the run. Throws UsageError for an invalid name.
NatsPermissions permissions_of(const NatsUser& user, const NatsSubjects& subjects,
                               const std::vector<std::string>& streams);

// Base64 with the letters of URLs (RFC 4648, section 5), without padding.
std::string encode_base64url(std::span<const uint8_t> bytes);

// JSON Web Tokens (JWT) for the servers of a NATS cluster in operator mode, signed by an operator
// or an account with its NKey, as in github.com/nats-io/jwt, version 2. Servers trust the operator;
// it vouches for accounts, and an account's key for users.

// What admits users to an account.
struct AccountKey {
  PublicKey account;
  Seed secret{};  // of the account's own key, or of one of its signing keys
  bool operator==(const AccountKey&) const = default;
};

// A user's JWT, which the servers accept until user.expires. `subjects` and `streams` as for
// permissions_of; `now`: seconds since 1970. Throws UsageError for invalid names.
std::string user_jwt(const AccountKey& account, const NatsSubjects& subjects,
                     const std::vector<std::string>& streams, const NatsUser& user, int64_t now);

// The operator's JWT, signed by itself; names its system account, to which servers report.
std::string operator_jwt(const Signer& operator_key, const PublicKey& system_account, int64_t now);
// The system account's JWT: exports to each account the notices of its connections that ended.
std::string system_account_jwt(const Signer& operator_key, const PublicKey& account, int64_t now);
// The JWT of an account for runs: JetStream without limits, and the system account's notices
// imported as NatsSubjects::departures(). The account's own key signs users.
std::string account_jwt(const Signer& operator_key, const std::string& name,
                        const PublicKey& account, const PublicKey& system_account, int64_t now);

}  // namespace thinwire::transport

// Who may do what on the servers of a run. Pure. docs/security.md says what each role is trusted
// with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/base/signature.h"
#include "thinwire/transport/nats/nats_subjects.h"

namespace thinwire::transport {

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

}  // namespace thinwire::transport

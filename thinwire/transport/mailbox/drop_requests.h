// Chunks that the coordinator wants dropped. Each holder removes its own: the coordinator writes a
// list for it into its own folder. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/sha256.h"
#include "thinwire/transport/mailbox/mailbox_statements.h"

namespace thinwire::transport {

class DropRequests {
 public:
  DropRequests(const MailboxPlace& place, std::string coordinator);

  // For the coordinator: write() asks `holder` to remove the chunk. kRefused for others.
  Result<void> add(const std::string& holder, const Sha256& chunk);
  // Writes what was added, as few files as possible; what cannot be written stays for the next
  // call.
  void write(uint64_t unix_us);
  // Removes what the coordinator has asked this participant to remove since the last call.
  void carry_out();

 private:
  const MailboxPlace& place_;
  const std::string coordinator_;
  std::map<std::string, Bytes> added_;  // hashes, one after the other, by holder
  StatementOutbox outbox_;
  StatementInbox inbox_;
};

}  // namespace thinwire::transport

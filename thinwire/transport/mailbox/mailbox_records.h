// Streams as files, one a record. One participant writes them, the coordinator, so that the
// sequences need no server that decides who was first. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/mailbox/mailbox_place.h"

namespace thinwire::transport {

class RecordFiles {
 public:
  RecordFiles(const MailboxPlace& place, std::string coordinator);

  // Removes records of this participant's own that are not whole, which are as good as lost.
  void remove_damaged();
  // The highest sequence up to which there is every record. kDeadline: the mailbox cannot be read.
  Result<uint64_t> last(const std::string& stream) const;
  // As Courier::append; kDeadline and kLostPeer: the mailbox cannot be written to at the moment.
  Result<uint64_t> append(const std::string& stream, uint64_t expected_last, const Bytes& record);
  // kLostPeer: it is not there, or not whole yet.
  Result<Bytes> read(const std::string& stream, uint64_t sequence) const;

 private:
  const MailboxPlace& place_;
  const std::string coordinator_;
};

}  // namespace thinwire::transport

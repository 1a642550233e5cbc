// What a mailbox holds in files besides statements: chunks, records, and requests to drop blobs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/mailbox/mailbox_place.h"
#include "thinwire/transport/mailbox/mailbox_statements.h"

namespace thinwire::transport {

// Chunks of blobs as files, by their keys.

// Stores a chunk of this participant's own, unless it is there unaltered. kRefused: no space or no
// permission; other failures may be over later.
Result<void> store_chunk(const MailboxPlace& place, const Chunk& chunk);

struct FoundChunk {
  Bytes bytes;
  bool whole = false;  // they match the name; false: altered, or still being copied
};
// kLostPeer: the holder has no such chunk here.
Result<FoundChunk> find_chunk(const MailboxPlace& place, const std::string& holder,
                              const ChunkKey& key);

// A holder's blobs of which there is anything here; none if it has no folder.
std::vector<StoredBlob> list_blobs(const MailboxPlace& place, const std::string& holder);

// Removes a blob of this participant's own. It is no failure if it is not there.
Result<void> remove_blob(const MailboxPlace& place, const Sha256& name);

// Streams as files, one a record. One participant writes them, the coordinator, so that the
// sequences need no server that decides who was first. Not thread-safe.
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

// Blobs that the coordinator wants dropped. Each holder removes its own: the coordinator writes a
// list for it into its own folder. Not thread-safe.
class DropRequests {
 public:
  DropRequests(const MailboxPlace& place, std::string coordinator);

  // For the coordinator: write() asks `holder` to remove the blob. kRefused for others.
  Result<void> add(const std::string& holder, const Sha256& blob);
  // Writes what was added, as few files as possible; what cannot be written stays for the next
  // call.
  void write(uint64_t unix_us);
  // Removes what the coordinator has asked this participant to remove since the last call.
  void carry_out();

 private:
  const MailboxPlace& place_;
  const std::string coordinator_;
  std::map<std::string, Bytes> added_;  // names, one after the other, by holder
  StatementOutbox outbox_;
  StatementInbox inbox_;
};

}  // namespace thinwire::transport

// How far a coordinator's host has read the ledger's stream, and whether the store still has those
// records. A store may come back from a power cut without its last records, even before the loss of
// the connection is noticed. So the host requests the stream's end whenever it is connected and
// whenever an append is refused; if records are missing, it reads the stream from the beginning and
// then reports the store's last record, after which the coordinator restores those it has.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/membership/ledger.h"
#include "thinwire/membership/messages.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// Belongs to the thread that ticks the host.
class LedgerReading {
 public:
  // The courier's answers go to `inbox`, perhaps after this object is destroyed.
  LedgerReading(transport::Courier& courier, std::shared_ptr<Inbox> inbox);

  // Reads the stream from its first record on.
  void begin();
  // The last sequence read from the stream, including messages that are not records.
  uint64_t last() const { return last_; }

  // Each adds the coordinator's inputs to `inputs`: that the store is disconnected, or that it is
  // connected, once all of its records have been read.
  void follow_connection(std::vector<membership::Input>& inputs);
  void take(const StreamEnd& end, std::vector<membership::Input>& inputs);
  // The message at `place` in the stream was read and added to `inputs`: record `sequence` of the
  // ledger, or 0 if it is not a record.
  void processed(uint64_t place, uint64_t sequence, std::vector<membership::Input>& inputs);
  // Whether everything that the store had when it was last connected has been read.
  bool is_complete() const { return reported_; }
  // False: it is from an earlier reading of the stream.
  bool is_current(const ReadRecord& read) const { return read.reading == reading_; }

  // Takes what was read from the stream; returns a record that is whole with it.
  std::optional<Bytes> join(Bytes message) { return joiner_.take(std::move(message)); }

  // Appends a record after the last one read, or what is missing of it if it was begun there;
  // nothing while parts of it are on their way over the same connection.
  void append(const Bytes& record);
  void take(const RefusedAppend& refused);

 private:
  void ask_for_end();
  void report_if_read(std::vector<membership::Input>& inputs);

  transport::Courier& courier_;
  const std::shared_ptr<Inbox> inbox_;
  bool connected_ = false;
  bool reported_ = false;  // to the coordinator, that the store is connected
  uint64_t reading_ = 0;   // number of the stream's subscription
  uint64_t last_ = 0;
  uint64_t last_record_ = 0;  // the newest record of this reading
  membership::RecordJoiner joiner_;
  // The record of several parts that was appended last, and how many of them are not answered yet.
  Sha256 long_record_;
  std::shared_ptr<std::atomic<size_t>> unanswered_ = std::make_shared<std::atomic<size_t>>(0);
  std::optional<uint64_t> end_;  // of the stream; read up to here, the store counts as connected
  std::unique_ptr<transport::Subscription> ledger_;
};

}  // namespace thinwire::serve

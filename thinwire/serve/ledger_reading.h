// What a coordinator's host has read of the ledger's stream, and whether the store still has it. A
// store that lost its power may come back without its last records, even before anybody notices
// that the connection was lost. So the host asks for the stream's end whenever it is connected and
// whenever an append is refused; if records are gone, it reads the stream anew and then says what
// the store's last record is, from which the coordinator puts back what it has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "thinwire/membership/messages.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// Belongs to the thread that ticks the host.
class LedgerReading {
 public:
  // What the courier answers goes to `inbox`, perhaps after this object has ended.
  LedgerReading(transport::Courier& courier, std::shared_ptr<Inbox> inbox);

  // Reads the stream from its first record on.
  void begin();
  // The last sequence read of the stream; it counts junk that is no record, too.
  uint64_t last() const { return last_; }

  // Each adds to `inputs` what the coordinator is to know: that the store is gone, or connected
  // once everything that it has was read.
  void follow_connection(std::vector<membership::Input>& inputs);
  void take(const StreamEnd& end, std::vector<membership::Input>& inputs);
  // What is at `place` of the stream was read and added to `inputs`: record `sequence` of the
  // ledger, or 0 if it is none.
  void took(uint64_t place, uint64_t sequence, std::vector<membership::Input>& inputs);
  // False: it is from an earlier reading of the stream.
  bool is_current(const ReadRecord& read) const { return read.reading == reading_; }

  // Appends a record behind the last one read.
  void append(const Bytes& record);
  void take(const RefusedAppend& refused);

 private:
  void ask_for_end();
  void tell_if_read(std::vector<membership::Input>& inputs);

  transport::Courier& courier_;
  const std::shared_ptr<Inbox> inbox_;
  bool connected_ = false;
  bool told_ = false;     // the coordinator, that the store is connected
  uint64_t reading_ = 0;  // number of the stream's subscription
  uint64_t last_ = 0;
  uint64_t last_record_ = 0;     // the newest record of this reading
  std::optional<uint64_t> end_;  // of the stream; the store is connected once it was read so far
  std::unique_ptr<transport::Subscription> ledger_;
};

}  // namespace thinwire::serve

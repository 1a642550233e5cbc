#include "thinwire/serve/ledger_reading.h"

#include <algorithm>
#include <utility>

#include "thinwire/membership/ledger.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::serve {

LedgerReading::LedgerReading(transport::Courier& courier, std::shared_ptr<Inbox> inbox)
    : courier_(courier), inbox_(std::move(inbox)) {}

void LedgerReading::begin() {
  ledger_.reset();
  last_ = last_record_ = 0;
  joiner_ = {};
  long_record_ = {};
  ledger_ = courier_.read(membership::kLedgerStream, 1,
                          [inbox = inbox_, reading = ++reading_](uint64_t sequence, Bytes record) {
                            inbox->add(ReadRecord{reading, sequence, std::move(record)});
                          });
}

// The courier restores connections by itself; what was in flight continues.
void LedgerReading::follow_connection(std::vector<membership::Input>& inputs) {
  const bool connected = courier_.connected();
  if (connected == std::exchange(connected_, connected)) return;
  if (connected) return ask_for_end();
  reported_ = false;
  end_.reset();
  long_record_ = {};
  inputs.emplace_back(membership::StoreDisconnected{});
}

void LedgerReading::ask_for_end() {
  courier_.last(membership::kLedgerStream,
                [inbox = inbox_, reading = reading_, known = last_](const Result<uint64_t>& last) {
                  inbox->add(StreamEnd{reading, known, last});
                });
}

void LedgerReading::take(const StreamEnd& end, std::vector<membership::Input>& inputs) {
  if (!connected_) return;  // asked again once it is back
  if (!end.last) return ask_for_end();
  const bool lost = end.reading == reading_ && *end.last < end.known;
  if (lost) {
    if (std::exchange(reported_, false)) inputs.emplace_back(membership::StoreDisconnected{});
    begin();
  }
  if (reported_) return;
  end_ = *end.last;
  report_if_read(inputs);
}

void LedgerReading::processed(uint64_t place, uint64_t sequence,
                              std::vector<membership::Input>& inputs) {
  last_ = place;
  last_record_ = std::max(last_record_, sequence);
  report_if_read(inputs);
}

void LedgerReading::report_if_read(std::vector<membership::Input>& inputs) {
  if (!end_ || last_ < *end_) return;
  end_.reset();
  reported_ = true;
  inputs.emplace_back(membership::StoreConnected{last_record_});
}

// If it is refused because the stream has grown, reading the new records leads to the next
// decision. All parts of a record are on their way at once. A part has the same place in the stream
// whenever it is sent, so of a repeated one the later copy is refused.
void LedgerReading::append(const Bytes& record) {
  const std::vector<Bytes> messages = membership::messages_of(record);
  const Sha256 name = membership::record_hash(record);
  const auto unanswered = std::make_shared<std::atomic<size_t>>(0);
  if (messages.size() > 1) {
    if (name == long_record_ && *unanswered_ > 0) return;
    long_record_ = name;
    unanswered_ = unanswered;
  }
  uint64_t last = last_;
  for (size_t i = joiner_.held(name); i < messages.size(); ++i) {
    ++*unanswered;
    courier_.append(
        membership::kLedgerStream, last++, messages[i],
        [inbox = inbox_, reading = reading_, unanswered](const Result<uint64_t>& appended) {
          --*unanswered;
          if (appended || appended.error().kind != FailureKind::kStaleRound) return;
          inbox->add(RefusedAppend{reading});
        });
  }
}

void LedgerReading::take(const RefusedAppend& refused) {
  if (refused.reading == reading_ && reported_) ask_for_end();
}

}  // namespace thinwire::serve

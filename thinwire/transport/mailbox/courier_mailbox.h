// A courier over a folder that something else synchronises between hosts: Syncthing, a network
// share, rclone, a USB stick. No server is needed. docs/formats.md, "Mailbox", describes the files;
// docs/security.md says what whoever can write to the folder can do.
//
// Differences from other couriers:
//   * Only the coordinator appends records and drops the chunks of others; for everybody else these
//     calls are kRefused. Others' chunks are removed by their holders, once they see the request.
//   * What is stored is on this host's disk. When it reaches others is up to the synchroniser. A
//     chunk that is not here, or not whole, counts as missing only after `settle_s`.
//   * Nothing keeps participants from writing in each other's folders: `from` proves nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/mailbox/mailbox_statements.h"

namespace thinwire::transport {

struct MailboxOptions {
  fs::path folder;          // must exist
  std::string run;          // a courier name; several runs may share a folder
  std::string self;         // only one courier at a time may have this name
  std::string coordinator;  // the participant whose records count
  double timeout_s = 30;
  double poll_s = 0.02;  // between looks into the folder
  double settle_s = 5;   // for a chunk to arrive that has been announced
  uint64_t max_blob_bytes = 1 << 30;
  KeptStatements kept_statements = {};
  bool leaves_nothing = false;  // removes its files when it is destroyed
  // Called by the courier's thread, with a sentence, once the folder takes nothing more of this
  // host (its disk is full, for example), and again once it does. May be empty.
  std::function<void(const std::string& sentence)> notice = {};
};

// kLostPeer: there is no such folder; kRefused: it cannot be written to.
Result<std::unique_ptr<Courier>> open_mailbox_courier(const MailboxOptions& options);

}  // namespace thinwire::transport

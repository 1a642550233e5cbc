// Statements as files: what a participant writes, and what appears in the folders of all. Used for
// drops as well. Neither class is thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/mailbox/mailbox_place.h"

namespace thinwire::transport {

// How long an author keeps what it has written.
struct KeptStatements {
  double seconds = 600;
  size_t count = 512;
};

class StatementOutbox {
 public:
  // `folder`: below the participant's own. Continues its earlier files: their numbers go on, and
  // they are removed in time.
  StatementOutbox(const MailboxPlace& place, std::string folder, const KeptStatements& kept);

  // `unix_us`: microseconds since 1970; a number is at least that, and higher than all before it.
  Result<void> write(const std::string& text, std::span<const uint8_t> content, uint64_t unix_us);
  // Removes what is older than it is kept.
  void clean(uint64_t unix_us);

 private:
  void remove_oldest();

  const MailboxPlace& place_;
  const std::string folder_;
  const KeptStatements kept_;
  std::deque<NumberedName> written_;
  uint64_t last_ = 0;
};

class StatementInbox {
 public:
  struct Found {
    std::string author;
    std::string text;  // the second part of its name
    Bytes content;
  };
  using Wanted = std::function<bool(const std::string& author, const std::string& text)>;

  StatementInbox(const MailboxPlace& place, std::string folder);

  // What has appeared since the last call in the folders of `authors`, each author's in order of
  // its numbers. What is not wanted is not read, and does not come later either. A file that is not
  // whole yet comes once it is.
  std::vector<Found> take(const std::vector<std::string>& authors, const Wanted& wanted);

 private:
  struct Author {
    std::vector<std::string> names;      // of all files that were there at the last call, sorted
    std::map<std::string, int> waiting;  // to be whole; how often they were not
  };

  void take_from(const std::string& author, const Wanted& wanted, std::vector<Found>& found);

  const MailboxPlace& place_;
  const std::string folder_;
  std::map<std::string, Author> authors_;
};

}  // namespace thinwire::transport

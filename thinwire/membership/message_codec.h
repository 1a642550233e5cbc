// Statements: the messages that members and coordinators send each other besides the ledger, as
// signed bytes. docs/formats.md, "Statements".
//
// Statements may be lost, arrive twice, or be replayed by anyone who received them. Each names its
// run and carries its author's next number, by which a receiver recognises those it has received
// before (ReplayWindow).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <variant>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/messages.h"

namespace thinwire::membership {

// Members send the first six, Loss and Announcement, everybody Lacking and Overtaken, auditors
// Audit, coordinators the others.
using Message = std::variant<JoinRequest, Report, Offer, LeaveNotice, SnapshotReady, Supply,
                             Misconduct, AskRecords, AskSnapshot, Refuse, Lacking, Loss,
                             Announcement, Sum, Audit, Overtaken, Waiting>;

struct Statement {
  uint64_t run = 0;
  PublicKey author;
  uint64_t number = 0;  // higher than that of every earlier statement of the author
  Message message;
};

// Signs the statement as its author; statement.author must be the signer's key.
Bytes encode_statement(const Statement& statement, const Signer& signer);

// Total: any bytes give a statement or kCorruptPayload with a reason. Allocates no more than a
// fixed multiple of the input size. A statement of another run is kStaleRound; one that its author
// did not sign is kCorruptPayload.
Result<Statement> decode_statement(std::span<const uint8_t> bytes, uint64_t run, Verify verify);

// Whether only coordinators may send this.
bool is_from_coordinator(const Message& message);
// The member that it claims to be from; -1 for a JoinRequest, which names a key, for Lacking and
// Overtaken, and for messages from auditors and coordinators. The receiver compares that member's
// key with the author's.
int sender(const Message& message);

// The number of an author's next statement. Numbers start at the microseconds since 1970, so they
// also ascend from one process to the next, as long as the machine's clock does; where it does not,
// receivers say what they have (Overtaken). Not thread-safe.
class StatementNumbers {
 public:
  uint64_t next();
  // The author has used this number before. Returns whether the next one would not have been
  // higher.
  bool go_on_from(uint64_t number);

 private:
  uint64_t following() const;

  uint64_t last_ = 0;
};

// Recognises statements that were received before, or that are older than the kWidth newest of
// their author. Not thread-safe.
class ReplayWindow {
 public:
  static constexpr uint64_t kWidth = 64;
  // A statement whose number is less far behind, in microseconds, was only late: a stalled server
  // sent later ones first. Further behind, its author's clock may have been ahead.
  static constexpr uint64_t kClockAhead = 10'000'000;
  static constexpr size_t kMaxKept = 1024;  // bytes of a statement; longer ones are not kept

  // Whether it is received for the first time. `bytes`: of the whole statement, whose signature the
  // caller has verified.
  bool is_new(const PublicKey& author, uint64_t number, std::span<const uint8_t> bytes);
  // What to tell the author of a statement with this number, which is not new; nothing if it only
  // arrived late or twice, or no later one is kept.
  std::optional<Overtaken> overtaken(const PublicKey& author, uint64_t number) const;
  // Whether the author's newest number is that far ahead of this time, seconds since 1970: its
  // clock was, while one whose statements are merely old was right.
  bool is_ahead(const PublicKey& author, double unix_time) const;

 private:
  struct Received {
    uint64_t newest = 0;
    uint64_t bits = 0;  // bit i: newest - i was received
    Bytes kept;         // the newest statement that is short enough
  };
  std::map<PublicKey, Received> authors_;
};

}  // namespace thinwire::membership

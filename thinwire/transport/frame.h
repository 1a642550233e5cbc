// Frames: the messages that the Rendezvous objects of a run send each other (rendezvous.h), and the
// byte strings that carry them between processes. docs/formats.md describes every byte.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::transport {

enum class FrameKind : uint8_t {
  kPayload = 1,   // of an exchange
  kContribution,  // encoded values, for the owner of their chunk
  kSum,           // the owner's sum, encoded
  kRefusal,       // the owner cannot form the sum; the reason
  kWithdrawal,    // the sender withdraws from a sum it had started
  kLeave,         // the sender leaves the run
  kAbort,         // the run ends for everybody; the reason
  kNote,          // outside the members' operations
};

// Whether frames of this kind belong to an operation.
constexpr bool names_operation(FrameKind kind) { return kind <= FrameKind::kWithdrawal; }

// One operation of a group. Groups are identified by a hash of their members, which is the same
// everywhere.
struct Operation {
  uint64_t group = 0;
  Key key;
  auto operator<=>(const Operation&) const = default;
};

struct FrameHead {
  FrameKind kind = FrameKind::kNote;
  int from = 0;  // members
  int to = 0;
  Operation operation;  // if names_operation(kind)
  bool operator==(const FrameHead&) const = default;
};

struct Frame {
  FrameHead head;
  Bytes body;
};

Bytes encode_frame(const FrameHead& head, std::span<const uint8_t> body);

// Total function: any bytes give a frame between two of `members` members, or kCorruptPayload with
// a reason. Encoding a decoded frame gives the same bytes again. The body is not copied.
Result<Frame> decode_frame(Bytes bytes, int members);

}  // namespace thinwire::transport

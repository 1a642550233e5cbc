// Frames: what places of a run say to each other (rendezvous.h), and the byte strings that carry it
// between processes. docs/formats.md describes every byte.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::transport {

enum class FrameKind : uint8_t {
  kPayload = 1,   // of an exchange
  kContribution,  // coded values, for the owner of their chunk
  kSum,           // the owner's sum, coded
  kRefusal,       // the owner cannot form the sum; why
  kWithdrawal,    // the sender takes no part in a sum it had started
  kLeave,         // the sender leaves the run
  kAbort,         // the run ends for everybody; why
  kNote,          // beside the members' operations
};

// Whether frames of the kind belong to an operation.
constexpr bool names_operation(FrameKind kind) { return kind <= FrameKind::kWithdrawal; }

// One operation of a group. Groups are known by a hash of their members, which is the same
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
  Operation operation;  // where names_operation(kind)
  bool operator==(const FrameHead&) const = default;
};

struct Frame {
  FrameHead head;
  Bytes body;
};

Bytes encode_frame(const FrameHead& head, std::span<const uint8_t> body);

// Total: any bytes give a frame between two of `members` members, or kCorruptPayload with a reason.
// What decodes is encoded to the same bytes again. The body is not copied.
Result<Frame> decode_frame(Bytes bytes, int members);

}  // namespace thinwire::transport

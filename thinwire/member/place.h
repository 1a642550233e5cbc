// The place of a member's checkpoint in the ledger, so that the member can continue from it after
// its process ended, and the ledger's last records, in case the store has lost them by then.
// docs/formats.md, "Checkpoint".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/member/ledger_view.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"

namespace thinwire::member {

// Their names in a checkpoint, among what is in flight.
inline constexpr const char* kPlaceName = "place";
inline constexpr const char* kRecordsName = "records";

struct Place {
  // The number of settled rounds, counted from the first: those of which nothing is in flight. And
  // the record that closed the last of them.
  membership::Position closed;
  uint64_t settled = 0;
  // The number of rounds begun, and the record that opened the last of them.
  uint64_t begun = 0;
  membership::Position opened;
  bool operator==(const Place&) const = default;
};

Bytes encode_place(const Place& place);
// Total: nothing for bytes that are not a place.
std::optional<Place> decode_place(std::span<const uint8_t> bytes);

// Records by their numbers, ascending.
Bytes encode_records(const std::map<uint64_t, Bytes>& records);
// Total: what can be read of any bytes, which may be nothing. Only records that a coordinator of
// `founding` has signed are returned.
std::map<uint64_t, Bytes> decode_records(std::span<const uint8_t> bytes,
                                         const membership::Founding& founding);

// The place of a replica that has completed `steps` steps of the ledger in `view`; nothing before
// the first round is settled, or if the view lacks a round that it needs.
std::optional<Place> place_of(const LedgerView& view, const membership::StepPlan& plan,
                              uint64_t steps);

// Whether a replica can continue from there: both records are in the history that was read, later
// ones can be replayed, and none of the rounds in flight was reopened.
bool continues(const LedgerView& view, const Place& place);

}  // namespace thinwire::member

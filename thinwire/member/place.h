// Where in the ledger a member's checkpoint stands, so that it can go on from there when its
// process has ended. docs/formats.md, "Checkpoints".
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/member/ledger_view.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"

namespace thinwire::member {

// The name under which a checkpoint has it, among what is in flight.
inline constexpr const char* kPlaceName = "place";

struct Place {
  // The record that closed the last round of which nothing is in flight, and how many rounds that
  // are, counted from the first.
  membership::Position closed;
  uint64_t settled = 0;
  // How many rounds had begun, and the record that opened the last one of these.
  uint64_t begun = 0;
  membership::Position opened;
  bool operator==(const Place&) const = default;
};

Bytes encode_place(const Place& place);
// Total: nothing for bytes that are no place.
std::optional<Place> decode_place(std::span<const uint8_t> bytes);

// Of a replica that has completed `steps` steps of what the view says; nothing before the first
// round is settled, or where the view does not have a round that it needs.
std::optional<Place> place_of(const LedgerView& view, const membership::RecipePlan& plan,
                              uint64_t steps);

// Whether a replica can go on from there: the record is in the history that was read, later ones
// can be replayed, and no round that it had begun was opened anew.
bool continues(const LedgerView& view, const Place& place);

}  // namespace thinwire::member

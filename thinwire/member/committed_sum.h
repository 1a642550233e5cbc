// The sum determined by a commit, formed locally by every member (committed_communicator.h).
#pragma once

#include <span>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/wire.h"
#include "thinwire/membership/record.h"
#include "thinwire/transport/coded_sum.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::member {

// The factor that turns a sum over the members listed by a commit into a mean: members weight what
// they send by their share of the rows of all contributors, and the commit may leave some out. It
// is the number of rows of all contributors divided by that of the listed ones; exactly 1 if none
// is left out, and 1 if none is listed. `from` as for Communicator::start_all_reduce; empty: the
// whole roster.
float mean_factor(const membership::Opening& opening, const transport::Contributors& from,
                  const std::vector<transport::Delivery>& listed);

// out := Q(factor * sum of the contributions as decoded), in their order and with the arithmetic of
// transport/coded_sum.h. kCorruptPayload names the member whose contribution has another length
// than `out` encoded, or does not decode.
Result<void> sum_committed(const WireCodec& codec, const std::vector<transport::Delivery>& listed,
                           float factor, std::span<float> out, transport::CodedSum& memory);

}  // namespace thinwire::member

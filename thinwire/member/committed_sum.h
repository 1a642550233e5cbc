// The sum determined by a commit, formed locally by every member (committed_communicator.h).
#pragma once

#include <span>
#include <vector>

#include "thinwire/base/commit.h"
#include "thinwire/base/error.h"
#include "thinwire/base/wire.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/transport/coded_sum.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::member {

// The factor that turns a sum over what a commit lists into a mean: members weight what they send
// by their share of the rows of all contributors, and a commit may leave some out, or list late
// contributions of an earlier round. It is 1 divided by the sum of the listed shares; exactly 1 if
// none is left out or late, and 1 if none is listed. A late contribution's share is that of its
// rows in the whole batch of its own round, whoever contributed to that. `from` as for
// Communicator::start_all_reduce; empty: the whole roster.
float mean_factor(const membership::RunPlan& plan, const membership::Opening& opening,
                  const transport::Contributors& from, const std::vector<Contribution>& listed);

// out := Q(factor * sum of the contributions as decoded), in their order and with the arithmetic of
// transport/coded_sum.h. kCorruptPayload names the member whose contribution has another length
// than `out` encoded, or does not decode.
Result<void> sum_committed(const WireCodec& codec, const std::vector<transport::Delivery>& listed,
                           float factor, std::span<float> out, transport::CodedSum& memory);

}  // namespace thinwire::member

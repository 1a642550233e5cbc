// What a member sent, as a direction over all weights: for code that compares it with gradients
// (docs/audits.md). Each algorithm that exchanges payloads has a reader that uses the same codec as
// its strategy; a new one is a line of the table in contribution_reader.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/codec/payload.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::sync {

// Used by one thread.
class ContributionReader {
 public:
  virtual ~ContributionReader() = default;
  // Sets `out`, an arena of the model's layout, to what the payload of an operation holds, with the
  // sign of a gradient, and to zero where it holds nothing. `id` says where the payload must belong
  // (its method is the reader's), `fragment` to which operation of the round. Fails with
  // kCorruptPayload or kStaleRound and the reason if a strategy could not apply it.
  virtual Result<void> read(std::span<const uint8_t> payload, codec::PayloadId id,
                            uint32_t fragment, tensor::Arena& out) = 0;
  // The parts of an arena of which an operation holds something; empty: all of it.
  virtual std::vector<tensor::GradientRange> covered(uint32_t /*fragment*/) const { return {}; }
  // Whether what a member sends follows from its gradients alone, and not from what it did before.
  virtual bool stateless() const { return false; }
  // Only if stateless(). Turns the gradients of a member that has this weight in the round
  // (RoundMember::weight) into what read() gives for the payload that it has to send.
  virtual void recompute(float /*weight*/, tensor::Arena& /*gradients*/) {}
};

// For an algorithm whose members exchange something of the tensors in the layout, which must
// outlive the reader. Null for one without a reader.
std::unique_ptr<ContributionReader> make_contribution_reader(const method::SyncSpec& spec,
                                                             const tensor::Layout& layout,
                                                             ThreadPool& threads);

}  // namespace thinwire::sync

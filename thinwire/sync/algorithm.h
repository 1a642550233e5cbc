// Everything that runs need of an algorithm beyond its spec (method/method.h): how a worker moves
// its bytes, how a coordinator reads what members offer, and how an auditor compares it with
// gradients. Each algorithm has one record, defined beside its strategy in its
// folder of thinwire/methods and listed in methods/methods.inc.
// A part that is missing is a UsageError in the command that needs it, never an absent check.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/wire.h"
#include "thinwire/codec/payload.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/sync/member_sum.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::sync {

// What a member sent, as a direction over all weights: for code that compares it with gradients
// (docs/audits.md). An algorithm's reader (Algorithm::contributions) uses the same codec as its
// strategy.

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

// What a payload reader is made for.
struct PayloadSource {
  const tensor::Layout& layout;  // of the tensors that are exchanged; need not outlive the reader
  // The run begins with one worker, whose gradient all-reduce exchanges as fp32 while it is alone
  // (Round::followed); operations state that size.
  bool lone_worker = false;
  uint64_t seed = 0;  // of the sketches (codec/value_sketch.h)
};

// `options` are the section of the run's method, of the type that the algorithm's methods have.
struct Algorithm {
  std::string_view name;  // method::Method::algorithm
  std::unique_ptr<Strategy> (*strategy)(const WorkerParts& worker, const config::Section& options);
  // Reads what members offer. Null: a run of many hosts would be unchecked, and is refused.
  std::unique_ptr<codec::PayloadReader> (*payloads)(const config::Section& options,
                                                    const PayloadSource& source) = nullptr;
  // The formats of members' dense values and of their sums; null, or none: it forms no such sums.
  std::optional<SumFormats> (*sums_in)(const config::Section& options) = nullptr;
  // How sums of gathered payloads are formed; null, or none: everybody needs each of them. Asks for
  // the tensors that are exchanged only if there are some.
  std::optional<GatheredSums> (*gathered_sums)(
      const config::Section& options,
      const std::function<std::vector<TensorSpec>()>& exchanged) = nullptr;
  // Turns what a member sent into a direction over all weights. Null: audits are refused. The
  // layout must outlive the reader.
  std::unique_ptr<ContributionReader> (*contributions)(const config::Section& options,
                                                       const tensor::Layout& layout,
                                                       ThreadPool& threads) = nullptr;
};

std::span<const Algorithm* const> all_algorithms();
// Adds the record of methods that method::add_method adds, under the same conditions.
void add_algorithm(const Algorithm& algorithm);

// Throws UsageError if nobody could read what members offer, so that a run of many hosts would be
// unchecked.
void check_payloads_readable(const method::AlgorithmSpec& algorithm);
// Checks this first.
std::unique_ptr<codec::PayloadReader> make_payload_reader(const method::AlgorithmSpec& algorithm,
                                                          const PayloadSource& source);

// Null for an algorithm that sends no sums of dense values.
const WireCodec* sum_codec(const method::AlgorithmSpec& algorithm);
// None for an algorithm whose members need every payload.
std::optional<GatheredSums> gathered_sums(const config::Recipe& recipe);

// The tensors that are exchanged: gradients as the optimizer takes them, or where workers train
// independently the parameters' differences.
std::vector<TensorSpec> exchanged_tensors(const config::Recipe& recipe);

// Throws UsageError if what members send could not be compared with gradients.
void check_contributions_readable(const method::AlgorithmSpec& algorithm);
// Checks this first.
std::unique_ptr<ContributionReader> make_contribution_reader(const method::AlgorithmSpec& algorithm,
                                                             const tensor::Layout& layout,
                                                             ThreadPool& threads);

// The record of each folder of thinwire/methods.
#define THINWIRE_METHOD(Name) extern const Algorithm k##Name;
#include "thinwire/methods/methods.inc"
#undef THINWIRE_METHOD

}  // namespace thinwire::sync

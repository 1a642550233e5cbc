// The arithmetic of outer steps (thinwire/methods/diloco/diloco.md) and its state: a worker's
// pseudo-gradient, the step of the shared weights along the mean, and the worker's own correction.
// All of it is fp32 with a fixed graph of operations; all buffers are in the order of the
// fragments. Shared weights and the outer velocity are where the params are, in memory or in files
// (train.offload).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/threads.h"
#include "thinwire/base/wire.h"
#include "thinwire/methods/diloco/diloco_spec.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::sync {

// Where the fragments of a model are: which parts of the arena make up a fragment's buffer.

// `count` values at offset `arena` of an arena, and at offset `buffer` of a buffer of the whole
// model that holds the fragments one after another; `gap` zeros follow in both.
struct FragmentPiece {
  int64_t arena = 0;
  int64_t buffer = 0;
  int64_t count = 0;
  int64_t gap = 0;
};

// The values [begin, begin + count) of such a buffer, gaps included.
struct DilocoFragment {
  int64_t begin = 0;
  int64_t count = 0;
  std::vector<FragmentPiece> pieces;  // ascending in both offsets
};

// Throws UsageError as method::fragment_elements does.
std::vector<DilocoFragment> diloco_fragments(const tensor::Layout& layout,
                                             const method::FragmentRule& rule);

class OuterStep {
 public:
  // Options, shared weights, params and threads must outlive it.
  OuterStep(const method::DilocoOptions& options, const WireCodec& codec, tensor::Arena& shared,
            tensor::Arena& params, ThreadPool& threads);

  // The worker's pseudo-gradient of a fragment: weight * (start - params), where start is the
  // shared weights plus the correction, plus the quantisation error left by earlier ones. `out` has
  // the fragment's length, and may be the params' own memory; its gaps become zero.
  void pseudo_gradient(const DilocoFragment& fragment, float weight, std::span<float> out);
  // Whether sent() has anything to do.
  bool follows_sent() const { return keeps_error() || !correction_.empty(); }
  // Called after `gradient`, a pseudo-gradient times `weight`, was sent: keeps its quantisation
  // error, and steps the correction along `gradient` minus `late`, the pseudo-gradient whose sum is
  // due now (empty: none). Throws Error if the gradient is not finite.
  void sent(const DilocoFragment& fragment, float weight, std::span<const float> gradient,
            std::span<const float> late);
  // `gradient` was sent, but left out of its sum: adds it back to the error, if error feedback is
  // on.
  void add_back(const DilocoFragment& fragment, float weight, std::span<const float> gradient);
  // Whether add_back() has anything to do.
  bool keeps_error() const { return options_.error_feedback; }
  // Where the error is kept in the weights: params = shared weights - params. Until the sum is
  // applied the params hold the error, of which nothing was sent if sent() was not called; then
  // this makes weights of them again.
  void turn(const DilocoFragment& fragment);
  // Steps the shared weights along the mean of a fragment's pseudo-gradients.
  void apply(const DilocoFragment& fragment, std::span<const float> mean);

  // params = shared weights + correction; their gaps become zero.
  void follow(const DilocoFragment& fragment);
  // params = (1 - mix) * shared weights + mix * params.
  void blend(const DilocoFragment& fragment);
  // Clears the correction of a fragment once none of its sums is in flight.
  void settle(const DilocoFragment& fragment);
  // Clears all state that is local to this worker.
  void forget();

  std::vector<StateTensor> state();

 private:
  // Calls body(offset in the arena, offset in the buffer, count) for parts of the pieces, on all
  // threads. Where weights are in files, what is done with is let go of: shared weights, velocity
  // and, with `params_done`, params.
  template <typename Body>
  void for_pieces(const DilocoFragment& fragment, bool params_done, const Body& body);
  float* velocity(int64_t place) { return velocity_ ? velocity_->all().data() + place : nullptr; }
  // `at`: where the chunk is in the fragment.
  void sent_chunk(const DilocoFragment& fragment, int64_t at, std::span<const float> gradient,
                  std::span<const float> late);
  // The outer optimizer's step of `count` values along `gradient`.
  void step(float* target, float* velocity, const float* gradient, int64_t count) const;

  const method::DilocoOptions& options_;
  const WireCodec& codec_;
  tensor::Arena& shared_;  // theta_c
  tensor::Arena& params_;  // theta_m
  ThreadPool& threads_;
  std::optional<tensor::Arena> velocity_;   // v; none if the outer step has no momentum
  std::vector<float> correction_;           // e; empty unless overlap = eager
  std::vector<float> correction_velocity_;  // u
  std::vector<float> error_;                // r; empty without error feedback or in the weights
  std::vector<float> lost_;                 // a fragment's, on its way into the weights
};

}  // namespace thinwire::sync

// A site: ranks of an MPI job, such as the GPUs of a machine or the nodes of a cluster, that
// compute the gradients of one worker together. docs/mpi.md, "A site as one member".
//
// Rank 0 is the worker: it has the replica, the optimizer and the synchronisation strategy. The
// other ranks have a copy of the weights and no state. In every step they receive the rows and what
// has changed of the weights, take an equal share of the rows, and give back the sum of their
// gradients. So a site joins, leaves and catches up as a single machine does, and may have other
// ranks each time. With an adapter these weights are the trained ones; the frozen ones are sent as
// rank 0 has them, and again where merging has changed them.
//
// Traffic of a step, for N trained parameters and R ranks: rank 0 sends the weights, 4 N bytes in
// fp32, to each other rank, and the sum of the gradients takes 2 (R - 1) / R * 4 N bytes of each
// rank in both directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/config/recipe.h"
#include "thinwire/model/model.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/gradients.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {

// Weights are sent in parts of at most so many bytes, one after another.
inline constexpr size_t kSentAtOnce = size_t{1} << 24;

// What rank 0 tells the others.
enum class SiteMessage : uint8_t { kEnd, kRecipe, kFrozen, kBegin, kWeights, kStep };

// Rank 0's end; used by one thread at a time.
class Site {
 public:
  // `ranks` has at least 2 members, and must outlive it.
  explicit Site(transport::Communicator& ranks) : ranks_(ranks) {}
  // Tells the other ranks that they are no longer needed.
  ~Site();
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  int ranks() const { return ranks_.size(); }
  // The other ranks make a model of this recipe, which is resolved, with the tensors that it does
  // not train (null: none); once, before all gradients. Throws Error if one cannot.
  void begin(const config::Recipe& recipe, const tensor::Arena* frozen);
  // These tensors have changed.
  void set_frozen(const tensor::Arena& frozen);
  // As accumulate_gradients (gradients.h), over all ranks. Writes the gradients to `out`, which has
  // the layout of `params`, and returns the sum of the losses; a loss of pairs adds up those of all
  // ranks. Throws Error if another rank fails.
  double gradients(model::Model& model, const tensor::Arena& params, const StepRows& rows,
                   tensor::Arena& out);

 private:
  // Returns the message's number.
  uint64_t send(Bytes message);
  // The parts of an arena whose digests are not those of what was sent before. Of what is in files
  // no part stays in memory.
  void send_changed(SiteMessage kind, const tensor::Arena& values, std::vector<uint64_t>& sent);

  transport::Communicator& ranks_;
  std::vector<uint64_t> sent_weights_,
      sent_frozen_;  // digests of their parts; empty: none are sent
  uint64_t messages_ = 0;
  bool in_step_ = false;  // the other ranks compute, or wait for this one
};

// What the other ranks do until rank 0 has destroyed its Site or has left. Throws Error if another
// rank fails, and for whatever the model throws, which then ends rank 0's work as well.
void help_site(transport::Communicator& ranks);

}  // namespace thinwire::train

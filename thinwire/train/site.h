// A site: ranks of an MPI job, such as the GPUs of a machine or the nodes of a cluster, that
// compute the gradients of one worker together. docs/mpi.md, "A site as one member".
//
// Rank 0 is the worker: it has the replica and the synchronisation strategy. The other ranks have a
// copy of the weights. In every step they receive the rows and what has changed of the weights,
// take an equal share of the rows, and give back the sum of their gradients.
//
// Where the strategy steps by whole gradients (method::shares_steps), the ranks share the optimizer
// (ZeRO-1: Rajbhandari et al. 2020, arXiv 1910.02054): each has the state of some tensors, gets
// their gradients where these are no longer the sum that it has, updates them, and gives their new
// values to the others, with the bits of a step on one rank. For checkpoints rank 0 collects the
// state in a file; so a site joins, leaves and catches up as a single machine does, and may have
// other ranks each time. With an adapter these weights are the trained ones; the frozen ones are
// sent as rank 0 has them, and again where merging has changed them.
//
// Traffic of a step, for N trained parameters and R ranks: the sum of the gradients takes
// 2 (R - 1) / R * 4 N bytes of each rank in both directions, and new weights (R - 1) / R * 4 N in
// fp32. Where the ranks do not share the step, or the weights have changed otherwise, rank 0 sends
// all of them to each other rank, 4 N bytes, or 2 N in bf16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/file.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/model/model.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"
#include "thinwire/train/gradients.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {

inline constexpr int kWorker = 0;  // the rank
// Weights and state are sent in parts of at most so many bytes, one after another.
inline constexpr size_t kSentAtOnce = size_t{1} << 24;

template <typename T>
void put_values(ByteWriter& writer, std::span<const T> values) {
  writer.put(static_cast<uint64_t>(values.size()));
  writer.put_bytes(as_bytes(values));
}

template <typename T>
std::vector<T> get_values(ByteReader& reader) {
  const std::span<const uint8_t> bytes =
      reader.get_bytes(static_cast<size_t>(reader.get<uint64_t>()) * sizeof(T));
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// What the ranks of a site exchange, in answer to one message of rank 0 after another; all make the
// same calls. Each throws Error if another rank fails. Used by one thread.
class SiteExchange {
 public:
  // `ranks` must outlive it.
  explicit SiteExchange(transport::Communicator& ranks);

  int rank() const { return ranks_.rank(); }
  int count() const { return ranks_.size(); }

  // Rank 0's next message, and what the others hear of it: null if rank 0 has left.
  void tell(Bytes message);
  std::shared_ptr<const Bytes> hear();
  // Everybody's answer, of those in `from` (empty: of all), once these have given it.
  std::vector<transport::Delivery> answer(Bytes own, const transport::Contributors& from = {});
  // The sum over the ranks in `from`, in their order, in place.
  void sum(std::span<float> values, const transport::Contributors& from);
  // The same for the first `count` ranks alone, once or more often; the others make no call.
  void sum_of_first(int count, std::span<float> values);
  // Bytes between two ranks; both know how many.
  void send(int to, std::span<const uint8_t> bytes);
  void receive(int from, std::span<uint8_t> bytes);
  // Each rank gets the tensors of which `ranks` says that another has their newest values.
  void gather(std::span<const int> ranks, tensor::Arena& values);

 private:
  struct Pair {
    std::unique_ptr<transport::Communicator> ranks;
    uint32_t parts = 0;  // passed since the message
  };

  void begin();
  // The sum over those of `ranks` that are in `from` (empty: all), in their order, in place.
  void sum_of(transport::Communicator& ranks, std::span<float> values,
              const transport::Contributors& from);
  // A part from one of a pair to the other, which gives none.
  std::shared_ptr<const Bytes> pass(int other, Bytes own, bool sends);

  transport::Communicator& ranks_;
  std::vector<Pair> pairs_;  // with rank 0, by the other rank
  std::map<int, std::unique_ptr<transport::Communicator>> firsts_;  // by their number
  uint64_t message_ = 0;
  uint32_t parts_ = 0;  // gathered or summed by several ranks since the message
};

// A rank's part of the optimizer, and of its steps. The state of what it updates is in memory, or
// where the options say.
class OptimizerPart {
 public:
  // The exchange and the layout, which is that of the parameters, must outlive it.
  OptimizerPart(SiteExchange& site, const method::OptimizerOptions& options,
                const tensor::Layout& layout);

  // The rank that updates each tensor.
  std::span<const int> ranks() const { return ranks_; }
  bool updates(size_t tensor) const { return ranks_[tensor] == site_.rank(); }
  optim::Optimizer& optimizer() { return *optimizer_; }
  // The step of all ranks, each of which has the gradients of its tensors.
  void update(tensor::Arena& params, const tensor::Arena& grads, const optim::OptimizerStep& step,
              const optim::Optimizer::ScaleOf& scale, ThreadPool& threads);

  // On the other ranks: what rank 0's messages ask for. The reader is behind their kind.
  void take_step(ByteReader reader, tensor::Arena& params, tensor::Arena& grads,
                 ThreadPool& threads);
  void send_state();
  void receive_state();

 private:
  SiteExchange& site_;
  const std::vector<int> ranks_;
  const std::unique_ptr<optim::Optimizer> optimizer_;
};

// What rank 0 tells the others.
enum class SiteMessage : uint8_t {
  kEnd,
  kRecipe,
  kFrozen,
  kBegin,
  kWeights,
  kStep,
  kOptimizer,
  kUpdate,
  kCollect,
  kSpread,
  kReset
};

// Rank 0's end; used by one thread at a time.
class Site {
 public:
  // `ranks` has at least 2 members, and must outlive it.
  explicit Site(transport::Communicator& ranks) : ranks_(ranks), exchange_(ranks) {}
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
  // Where gradients are handed over one by one: what makes a sink take their sums over all ranks.
  // The site must outlive the handlers.
  tensor::StreamedGradients::Handlers summing(tensor::StreamedGradients::Handlers handlers);
  // Whether each rank takes its share of so many rows in one pass, as that needs.
  bool streams(const StepRows& rows) const;
  // As gradients(), into a sink with such handlers.
  double stream(model::Model& model, const tensor::Arena& params, const StepRows& rows,
                tensor::StreamedGradients& sink);
  // An optimizer that all ranks share, in the place of an earlier one. The site, the layout and the
  // threads must outlive it. folder: where its state is collected.
  std::unique_ptr<optim::SharedOptimizer> share_optimizer(const method::OptimizerOptions& options,
                                                          const tensor::Layout& layout,
                                                          ThreadPool& threads,
                                                          const fs::path& folder);
  // Bytes of the state that each rank holds of that optimizer.
  std::span<const uint64_t> state_bytes() const { return state_bytes_; }

 private:
  friend class SiteOptimizer;

  static Bytes message_of(SiteMessage kind);
  // Gives the sink the gradients of this rank's rows, and `end` the sums of all ranks after that.
  double step(model::Model& model, const tensor::Arena& params, const StepRows& rows,
              tensor::GradientSink& sink, const std::function<void()>& end);
  // The other ranks compute, or wait for this one, until it ends.
  void begin_step() { in_step_ = true; }
  void end_step() { in_step_ = false; }
  // The parts of an arena whose digests are not those of what was sent before. Of what is in files
  // no part stays in memory.
  void send_changed(SiteMessage kind, const tensor::Arena& values, std::vector<uint64_t>& sent);
  // All ranks have these values.
  static void remember(const tensor::Arena& values, std::vector<uint64_t>& sent);
  void remember_gradients(const tensor::Arena& gradients);

  transport::Communicator& ranks_;
  SiteExchange exchange_;
  std::vector<uint64_t> sent_weights_,
      sent_frozen_;                       // digests of their parts; empty: none are sent
  std::vector<uint64_t> gradients_held_;  // digests of the other ranks', by tensor; none: unused
  std::vector<uint64_t> state_bytes_;
  int active_ = 0;  // the first ranks, which have rows of the step
  bool in_step_ = false;
};

// What the other ranks do until rank 0 has destroyed its Site or has left. Throws Error if another
// rank fails, and for whatever the model throws, which then ends rank 0's work as well.
void help_site(transport::Communicator& ranks);

}  // namespace thinwire::train

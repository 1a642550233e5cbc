// A language model with hand-written forward and backward passes: loss and gradients of a batch of
// rows, without autograd. model.architecture says what it computes (model/registry.h). All memory
// is planned when it is constructed; a step allocates nothing.
//
// The residual stream, the norms' statistics, softmax and all gradients of parameters are fp32 in
// either precision; with bf16 the operands and results of the matrix products are rounded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/threads.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/model/batch.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/device.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

// A loss that is a function of the log-likelihoods of whole documents, such as one that compares
// two answers, instead of a sum over positions.
class DocumentLoss {
 public:
  virtual ~DocumentLoss() = default;

  // Called once in each pass over a batch. losses[i] is the sum over the positions of
  // batch.documents()[i] of weight * loss, in nats: minus the log-likelihood of its targets.
  // Returns the batch's loss and sets factors[i] to its derivative with respect to losses[i].
  virtual double form(const Batch& batch, std::span<const double> losses,
                      std::span<float> factors) = 0;
};

// What computes: our own backend on the CPU if empty, else LibTorch's on that device.
using Placement = std::optional<tensor::DevicePlace>;

// Where worker `worker` (from 0) of the process computes: with kCuda on device `worker` modulo the
// number of devices. Throws UsageError, saying what exists, if the device is missing; `given` is
// how it was chosen.
Placement placement_of(config::DeviceChoice device, int worker = 0,
                       std::string_view given = "[train] device =");

// kFp32 or kBf16: what kAuto means there.
Precision precision_on(const Placement& placement, Precision precision);

// Whether a pass adds its gradients to the existing ones, or replaces them, including the gaps
// between the tensors (which become zero).
enum class Gradients : uint8_t { kAdd, kReplace };

// Where the time of passes over batches went, in seconds since the model was constructed. The rest
// of `all` is the matrix products of the blocks.
struct PassTimes {
  double all = 0;
  double attention = 0;  // scores, softmax and rotary positions, forward and backward
  double between = 0;    // norms, SwiGLU and embedding: passes over memory between the products
  double head = 0;       // the last product and its cross entropy
};

// What a model is made from. The references must outlive it, except `model`.
struct ModelParts {
  const method::ModelSpec& model;  // complete, vocab too
  Precision precision;             // not kAuto
  const tensor::Layout& layout;    // of what method::adapted_tensors says is trained
  tensor::Arena& params;           // bf16 only with Precision::kBf16 and without a placement
  ThreadPool& threads;
  int64_t max_rows;          // a call takes at most this many rows ...
  int64_t sequence;          // ... of at most this many tokens
  Placement placement = {};  // if set, params and the gradients of each call get a copy there
  // The frozen tensors, which several models may share; null if all are trained.
  const tensor::Arena* frozen = nullptr;
  method::AdapterSpec adapter = {};
};

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // Every position predicts the token after it: `tokens` is rows x (length + 1) with 1 <= length <=
  // sequence. Returns the sum of the rows * length losses in nats; gradient_scale *
  // d(sum)/d(parameter) goes to the sink, as a pass of a step. Throws Error for a token outside the
  // vocabulary and for a batch of the wrong size.
  double loss_and_gradients(std::span<const int32_t> tokens, int64_t rows, float gradient_scale,
                            tensor::GradientSink& sink, tensor::Pass pass,
                            const RowMarks& marks = {}) {
    batch_.load(tokens, rows, marks);
    return batch_gradients(gradient_scale, sink, pass, nullptr);
  }
  // The same for a loss of the rows' documents, which it returns.
  double loss_and_gradients(std::span<const int32_t> tokens, int64_t rows, float gradient_scale,
                            tensor::GradientSink& sink, tensor::Pass pass, const RowMarks& marks,
                            DocumentLoss& loss) {
    batch_.load(tokens, rows, marks);
    return batch_gradients(gradient_scale, sink, pass, &loss);
  }
  // Adds the gradients to those in the arena, or replaces these.
  double loss_and_gradients(std::span<const int32_t> tokens, int64_t rows, float gradient_scale,
                            tensor::Arena& gradients, Gradients mode = Gradients::kAdd) {
    batch_.load(tokens, rows);
    return arena_gradients(gradient_scale, gradients, mode);
  }
  // The same with targets and weights of their own: the sum of weight * loss, and its gradients.
  double loss_and_gradients(const Examples& examples, float gradient_scale,
                            tensor::Arena& gradients, Gradients mode = Gradients::kAdd) {
    batch_.load(examples);
    return arena_gradients(gradient_scale, gradients, mode);
  }
  // What a StreamedGradients for this model is made with.
  virtual tensor::StreamSize stream_size() const = 0;

  // The same number as loss_and_gradients returns, bit for bit.
  double loss(std::span<const int32_t> tokens, int64_t rows, const RowMarks& marks = {}) {
    batch_.load(tokens, rows, marks);
    return batch_loss(nullptr);
  }
  double loss(std::span<const int32_t> tokens, int64_t rows, const RowMarks& marks,
              DocumentLoss& loss) {
    batch_.load(tokens, rows, marks);
    return batch_loss(&loss);
  }
  double loss(const Examples& examples) {
    batch_.load(examples);
    return batch_loss(nullptr);
  }

  // For an encoder: the logits [documents, outputs] of the labelled documents (class_targets()).
  std::vector<float> class_logits(std::span<const int32_t> tokens, int64_t rows,
                                  const RowMarks& marks = {}) {
    batch_.load(tokens, rows, marks);
    return batch_logits();
  }

  // Call this after the parameters have changed: makes the bf16 copies again, unless the optimizer
  // has already done so (Arena::rounded).
  virtual void refresh() = 0;
  // The same after the frozen parameters have changed.
  virtual void refresh_frozen() = 0;

  // All zero with a placement, because the device works asynchronously.
  virtual PassTimes times() const { return {}; }

  // Everything the model allocated: activations, scratch memory and bf16 copies.
  virtual size_t activation_bytes() const = 0;

 protected:
  explicit Model(const ModelParts& parts)
      : batch_(parts.max_rows, parts.sequence, parts.model.vocab) {}

  const Batch& batch() const { return batch_; }
  Batch& batch() { return batch_; }
  // For the loaded batch; loss null: the sum over its positions.
  virtual double batch_gradients(float gradient_scale, tensor::GradientSink& sink,
                                 tensor::Pass pass, DocumentLoss* loss) = 0;
  virtual double batch_loss(DocumentLoss* loss) = 0;
  virtual std::vector<float> batch_logits() = 0;

 private:
  double arena_gradients(float gradient_scale, tensor::Arena& gradients, Gradients mode) {
    tensor::WholeGradients sink(gradients);
    return batch_gradients(gradient_scale, sink, {.first = mode == Gradients::kReplace}, nullptr);
  }

  Batch batch_;
};

// Sets the parameters for the start of training as their architecture says (method::Architecture::
// initial). Every tensor has its own random stream, so the values depend only on seed and shapes.
void init_parameters(tensor::Arena& params, const method::ModelSpec& model, uint64_t seed,
                     ThreadPool& threads);
// The same on the calling thread.
void init_parameters(tensor::Arena& params, const method::ModelSpec& model, uint64_t seed);

}  // namespace thinwire::model

// Pure facts of a model's architecture: its tensors and what each is for, their initial values, the
// cost of a token, and what a training step keeps in memory. Trainer and planner read the same
// facts, so that a prediction cannot disagree with the run. The code that computes is in model/,
// its Hugging Face form in convert/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/fields.h"
#include "thinwire/method/architectures/model_spec.h"

namespace thinwire::method {

// How a tensor's initial values are drawn: normal(mean, deviation).
struct InitialValues {
  double mean = 0;
  double deviation = 0;  // 0: all values are the mean
};

// The cost of one token, forward and backward: floating-point operations of the matrix products,
// and bytes that the passes between them read and write.
struct TokenWork {
  double products = 0;           // in the blocks
  double attention = 0;          // as computed: two causal products forward, five backward
  double head = 0;               // the last product
  double elementwise_bytes = 0;  // norms, activations and additions
};

// A forward and backward pass of one worker.
struct PassShape {
  int64_t rows = 0;
  int64_t sequence = 0;      // tokens per row
  double operand_bytes = 4;  // bytes of a value in the matrix products: 4 for fp32, 2 for bf16
};

// What such a pass keeps in memory on the CPU, in bytes.
struct PassMemory {
  double activations = 0;  // kept from forward to backward pass, and the buffers of both
  double a_thread = 0;     // buffers that each thread has for itself
  // If gradients are formed and handed over one at a time, the memory that holds them
  // (tensor/storage/gradient_sink.h).
  double streamed_gradients = 0;
};

// Implements what the sections of architectures have in common.
template <typename Derived>
class ArchitectureSectionOf : public config::SectionOf<Derived> {
 public:
  std::string_view chosen_by() const override { return "model.architecture"; }
};

struct Architecture {
  std::string_view name;      // value of model.architecture
  std::string_view sentence;  // for --explain and the docs
  // A fresh section [name] with the fields that only this architecture has, at their defaults.
  std::unique_ptr<config::Section> (*options)();
  // Fields of [model] and of its own table that determine the tensors, and those that only change
  // what is computed with them. Fields of [model] in neither list have no meaning for this
  // architecture, except init_std, recompute, block_inputs and vocab_slabs, which all have.
  std::span<const std::string_view> shape_fields;
  std::span<const std::string_view> arithmetic_fields;
  // Throws UsageError if fields of the model contradict each other. vocab need not be known yet.
  void (*check)(const ModelSpec& model);
  // In the order of the arena, with their Hugging Face names. Throws Error unless vocab and the
  // derived fields are set.
  std::vector<TensorSpec> (*tensors)(const ModelSpec& model);
  InitialValues (*initial)(const ModelSpec& model, const TensorSpec& tensor);
  // As model FLOP/s are counted: 6 per active matrix parameter (including the head, excluding the
  // embedding look-up) plus those of attention; recomputation does not count.
  double (*flops_per_token)(const ModelSpec& model, int64_t sequence);
  TokenWork (*work)(const ModelSpec& model, const PassShape& pass);
  PassMemory (*memory)(const ModelSpec& model, const PassShape& pass);
  // Values that the decoder's cache holds per token: keys and values of all blocks.
  double (*kept_per_token)(const ModelSpec& model);
  int64_t (*head_size)(const ModelSpec& model);  // width of an attention head
  // Rows of the last product: the vocabulary's size, or an encoder's classes.
  int64_t (*outputs)(const ModelSpec& model);
  // Attention sees the whole text, and the model predicts its class (data.records = "labels")
  // instead of the next token.
  bool encodes = false;
  // The longest text; null: any.
  int64_t (*positions)(const ModelSpec& model) = nullptr;
};

// The table of architectures. A new one adds a line in architectures/architectures.inc.

// Those whose models Thinwire computes.
std::span<const Architecture* const> all_architectures();

// One of these, or that of a program's own model (architectures/external). Throws UsageError
// listing the known names.
const Architecture& find_architecture(std::string_view name);

// The facts of the model's architecture.
std::vector<TensorSpec> tensors_of(const ModelSpec& model);
double train_flops_per_token(const ModelSpec& model, int64_t sequence);

// The tensors that a run of the recipe trains, which are all that it synchronises and saves: those
// of the model, or with an adapter what that leaves (method/adapters/adapter.h).
std::vector<TensorSpec> tensors_of(const config::Recipe& recipe);
// At train.sequence. Without the gradients of tensors that are not trained.
double train_flops_per_token(const config::Recipe& recipe);

// Which tensors products read: all but an embedding that is not the head as well.
std::vector<bool> multiplied_tensors(const ModelSpec& model, std::span<const TensorSpec> tensors);

int64_t parameter_count(std::span<const TensorSpec> tensors);
// Number of parameters without embedding and head.
int64_t non_embedding_count(std::span<const TensorSpec> tensors);

}  // namespace thinwire::method

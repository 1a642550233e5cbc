#include "thinwire/method/memory/memory.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/gradient_sums.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/method.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/method/within.h"

namespace thinwire::method {
namespace {

constexpr double kFloat = 4;
constexpr double kBf16 = 2;
// What a thread's matrix products are packed into (tensor/products/gemm_packed.cpp).
constexpr double kPackBytes = 1.5e6;

// One chunk of logits, their gradient, and what the products back to the model's width need.
double loss_bytes(const config::Recipe& recipe, double tokens, double operand) {
  const int64_t outputs = find_architecture(recipe.model.architecture).outputs(ModelSpec(recipe));
  const auto vocab = static_cast<double>(outputs);
  const auto hidden = static_cast<double>(recipe.model.hidden);
  const auto rows_per_thread = static_cast<double>(logit_rows(outputs));
  const double chunk =
      std::min(tokens, rows_per_thread * static_cast<double>(recipe.train.threads));
  return chunk * (vocab * kFloat + hidden * (kLogitParts * kFloat + operand));
}

std::vector<TensorSpec> frozen_tensors(const config::Recipe& recipe) {
  return adapted_tensors(ModelSpec(recipe), recipe.adapter).frozen;
}

// The memory of the copy that products in bf16 need beside weights in fp32.
double copy_beside(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                   WeightFormat format) {
  const bool none = recipe.train.precision != Precision::kBf16 || format != WeightFormat::kF32;
  return none ? 0 : copy_bytes(recipe, tensors);
}

// The products with the factors (model/cpu_ops.h).
double adapter_bytes(const config::Recipe& recipe, double tokens, double operand) {
  if (!is_adapted(recipe.adapter)) return 0;
  const double wide = operand < kFloat ? kFloat : 0;
  return tokens * static_cast<double>(recipe.adapter.rank) * (2 * operand + wide);
}

// What a thread needs for panels of encoded matrices (tensor/products/encoded_products.cpp).
// Products take up to three matrices side by side.
double panel_bytes(const config::Recipe& recipe, std::span<const TensorSpec> frozen) {
  if (!is_encoded(recipe.train.weights)) return 0;
  int64_t side = 0;
  for (const TensorSpec& tensor : frozen) {
    if (tensor.is_hidden_matrix()) side = std::max({side, tensor.shape[0], tensor.shape[1]});
  }
  if (side == 0) return 0;
  int64_t most = 0;
  for (const int64_t depth : {side, 2 * side, 3 * side}) {
    most = std::max(most, depth * encoded_panel_columns(depth));
  }
  return kBf16 * static_cast<double>(most);
}

// What streamed gradients need where only a part of the tensors is trained.
double streamed_bytes(std::span<const TensorSpec> trained, int64_t slabs) {
  int64_t largest = 0;
  for (const TensorSpec& tensor : trained) {
    largest = std::max(largest, padded_elements(formed_elements(tensor, slabs)));
  }
  return kFloat * static_cast<double>(largest);
}

// Only copies of weights that products read stay in memory, and what is passed over as a whole
// between steps. What optimizers keep is the member's own where it trains alone.
void offload(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
             StepMemory& memory) {
  if (find_method(recipe.sync.method).keeps_bf16_weights) {  // changes them tensor by tensor
    memory.weights = copy_beside(recipe, tensors, trained_format(recipe));
  }
  if (!facts_of(recipe.adapter).merges) {
    memory.frozen = copy_beside(recipe, frozen_tensors(recipe), recipe.train.weights);
  }
  memory.consensus -= outer_bytes(recipe, tensors);
  const StateBytes state = optimizer_state(recipe, tensors);
  const double own = std::min(memory.local, state.consensus + state.local);
  memory.local -= own;
  memory.consensus -= state.consensus + state.local - own;
  memory.window = offload_window(recipe, tensors);
}

}  // namespace

double weight_bytes(std::span<const TensorSpec> tensors, WeightFormat format) {
  int64_t bytes = 0;
  for (const TensorSpec& tensor : tensors) {
    bytes += thinwire::weight_bytes(format_of(tensor, format), tensor.count());
  }
  return static_cast<double>(bytes);
}

double copy_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const std::vector<bool> multiplied = multiplied_tensors(ModelSpec(recipe), tensors);
  int64_t elements = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (multiplied[i]) elements += arena_elements(tensors.subspan(i, 1));
  }
  return kBf16 * static_cast<double>(elements);
}

double shared_frozen_bytes(const config::Recipe& recipe) {
  if (facts_of(recipe.adapter).merges || recipe.train.offload) return 0;
  return weight_bytes(frozen_tensors(recipe), recipe.train.weights);
}

double step_code_bytes(const config::Recipe& recipe) {
  return recipe.train.precision == Precision::kBf16 ? 7e6 : 3e6;
}

double StepMemory::total() const {
  return weights + frozen + gradients + consensus + local + sums + window + activations +
         cross_entropy + thread_buffers + program;
}

StepMemory step_memory(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       const StateBytes& state, int64_t rows) {
  const bool bf16 = recipe.train.precision == Precision::kBf16;
  const config::TrainSection& train = recipe.train;
  const PassShape pass = {train.microbatch == 0 ? rows : std::min(train.microbatch, rows),
                          train.sequence, bf16 ? kBf16 : kFloat};
  PassMemory passes = find_architecture(recipe.model.architecture).memory(ModelSpec(recipe), pass);
  if (is_adapted(recipe.adapter)) {
    passes.streamed_gradients = streamed_bytes(tensors, recipe.model.vocab_slabs);
  }
  const auto tokens = static_cast<double>(pass.rows * pass.sequence);
  const WeightFormat trained = trained_format(recipe);
  const std::vector<TensorSpec> frozen = frozen_tensors(recipe);
  StepMemory memory = {
      .weights = weight_bytes(tensors, trained) + copy_beside(recipe, tensors, trained),
      .frozen = weight_bytes(frozen, train.weights) + copy_beside(recipe, frozen, train.weights),
      .gradients = gradient_bytes(recipe, tensors, passes),
      .consensus = state.consensus,
      .local = state.local,
      .sums = state.sums,
      .activations = passes.activations + adapter_bytes(recipe, tokens, pass.operand_bytes),
      .cross_entropy = loss_bytes(recipe, tokens, pass.operand_bytes),
      .thread_buffers = static_cast<double>(train.threads) *
                        (passes.a_thread + kPackBytes + panel_bytes(recipe, frozen))};
  if (train.offload) offload(recipe, tensors, memory);
  return memory;
}

bool shares_steps(const config::Recipe& recipe) {
  const Method& method = find_method(recipe.sync.method);
  const bool averages =
      method.local_updates ? !recipe.sync.clustered() : method.name == "allreduce";
  return averages && gradient_store(recipe) == GradientStore::kWhole &&
         find_optimizer(recipe.optim.method).takes_gradients && !facts_of(recipe.adapter).merges;
}

std::vector<int> step_ranks(const OptimizerOptions& options, std::span<const TensorSpec> tensors,
                            int ranks) {
  std::vector<double> costs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StateBytes state = optimizer_state(options, tensors.subspan(i, 1));
    costs.push_back(state.consensus + state.local + static_cast<double>(tensors[i].count()));
  }
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return costs[i]; });
  std::vector<double> loads(static_cast<size_t>(ranks));
  std::vector<int> owners(tensors.size());
  for (const size_t tensor : order) {
    const auto least = std::ranges::min_element(loads);
    *least += costs[tensor];
    owners[tensor] = static_cast<int>(least - loads.begin());
  }
  return owners;
}

SharedState shared_state(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                         int ranks) {
  const std::vector<int> owners = step_ranks(optimizer_options(recipe), tensors, ranks);
  std::vector<double> bytes(static_cast<size_t>(ranks));
  SharedState state;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const double one = optimizer_bytes(recipe, tensors.subspan(i, 1));
    bytes[static_cast<size_t>(owners[i])] += one;
    state.all += one;
  }
  state.largest = std::ranges::max(bytes);
  return state;
}

WeightFormat trained_format(const config::Recipe& recipe) {
  return is_adapted(recipe.adapter) ? WeightFormat::kF32 : recipe.train.weights;
}

int64_t formed_elements(const TensorSpec& tensor, int64_t slabs) {
  if (!tensor.is_vocabulary_sized()) return tensor.count();
  const int64_t width = tensor.shape.back();
  return slab_rows(tensor.count() / width, width, slabs) * width;
}

namespace {

constexpr double kReadAhead = 0.5;  // beside the largest tensor

double trained_bytes(const config::Recipe& recipe, const OptimizerOptions& options,
                     std::span<const TensorSpec> tensors) {
  const StateBytes state = optimizer_state(options, tensors);
  return weight_bytes(tensors, trained_format(recipe)) + state.consensus + state.local;
}

// What a tensor has in memory at once: a pass reads all weights of an embedding or head that is cut
// into slabs, but the optimizer updates one slab at a time.
double bytes_at_once(const config::Recipe& recipe, const OptimizerOptions& options,
                     const TensorSpec& tensor) {
  const auto elements = static_cast<double>(tensor.count());
  const double share =
      static_cast<double>(formed_elements(tensor, recipe.model.vocab_slabs)) / elements;
  const std::span one(&tensor, 1);
  const double weights = weight_bytes(one, trained_format(recipe));
  return weights + share * (trained_bytes(recipe, options, one) - weights);
}

}  // namespace

double outer_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const Method& method = find_method(recipe.sync.method);
  return method.local_updates ? method.state(recipe, tensors).consensus : 0;
}

double offloaded_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const std::vector<TensorSpec> frozen = frozen_tensors(recipe);
  return trained_bytes(recipe, optimizer_options(recipe), tensors) + outer_bytes(recipe, tensors) +
         weight_bytes(frozen, recipe.train.weights);
}

double offload_window(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const OptimizerOptions options = optimizer_options(recipe);
  double largest = 0;
  for (const TensorSpec& tensor : tensors) {
    largest = std::max(largest, bytes_at_once(recipe, options, tensor));
  }
  const std::vector<TensorSpec> frozen = frozen_tensors(recipe);
  for (const TensorSpec& tensor : frozen) {
    largest = std::max(largest, weight_bytes(std::span(&tensor, 1), recipe.train.weights));
  }
  return std::min((1 + kReadAhead) * largest, offloaded_bytes(recipe, tensors));
}

namespace {

using config::ClipBy;

bool projects(const config::Recipe& recipe) {
  return recipe.optim.gradients == config::GradientCoordinates::kProjected;
}

double largest_sum(const std::vector<int64_t>& sums) {
  return sizeof(float) * static_cast<double>(*std::ranges::max_element(sums));
}

bool clips_by_previous(const config::OptimSection& optim) {
  return optim.clip > 0 && optim.clip_by == ClipBy::kPrevious;
}

}  // namespace

int64_t members_of_a_step(const config::Recipe& recipe) {
  const auto workers = static_cast<int>(recipe.train.workers);
  if (!find_method(recipe.sync.method).local_updates) return workers;
  const Clusters clusters = clusters_of(recipe.sync, workers);
  int largest = 1;
  for (int cluster = 0; cluster < clusters.count; ++cluster) {
    largest = std::max(largest, clusters.size(cluster));
  }
  return largest;
}

double gradient_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                      const PassMemory& pass) {
  const bool streamed = gradient_store(recipe) == GradientStore::kStreamed;
  // One group is summed while another is filled.
  const double groups = streamed && members_of_a_step(recipe) > 1
                            ? 2 * largest_sum(gradient_sums(recipe, tensors, RunKind::kJob))
                            : 0;
  if (projects(recipe)) return projected_gradient_bytes(recipe, tensors) + groups;
  if (streamed) return pass.streamed_gradients + groups;
  return sizeof(float) * static_cast<double>(arena_elements(tensors));
}

double clipping_bytes(const config::Recipe& recipe) {
  return clips_by_previous(recipe.optim) ? sizeof(float) : 0;
}

}  // namespace thinwire::method

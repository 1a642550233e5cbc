#include "thinwire/method/memory/slabs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizers.h"

namespace thinwire::method {
namespace {

[[noreturn]] void refuse(const config::Recipe& recipe, const std::string& why) {
  throw UsageError(fmt::format("[model] vocab_slabs = {} {}, or model.vocab_slabs = 1",
                               recipe.model.vocab_slabs, why));
}

// That takes rows before it has the others.
void check_rows(const config::Recipe& recipe) {
  const OptimizerSpec& optimizer = find_optimizer(recipe.optim.method);
  if (optimizer.vocabulary_by_rows) return;
  std::vector<std::string_view> able;
  for (const OptimizerSpec* one : all_optimizers()) {
    if (one->vocabulary_by_rows) able.push_back(one->name);
  }
  refuse(recipe, fmt::format("needs an optimizer that can update some rows of embedding and head "
                             "before the others, got optim.method = \"{}\"; choose one of {}",
                             optimizer.name, fmt::join(able, ", ")));
}

void check_model(const config::Recipe& recipe) {
  if (recipe.model.tied) {
    refuse(recipe,
           "needs tied = false, got true: the gradient of an embedding that is also the head is "
           "held from the first product of the backward pass to the last; choose tied = false");
  }
  if (find_architecture(recipe.model.architecture).encodes) {
    refuse(recipe, fmt::format("needs an architecture whose head predicts tokens, got \"{}\"; "
                               "choose another one",
                               recipe.model.architecture));
  }
  if (recipe.train.device != "cpu") {
    refuse(recipe, fmt::format("needs train.device = \"cpu\", got \"{}\"; choose \"cpu\"",
                               recipe.train.device));
  }
}

}  // namespace

void check_slabs(const config::Recipe& recipe) {
  if (recipe.model.vocab_slabs == 1) return;
  check_model(recipe);
  if (recipe.train.update == config::UpdateTime::kStep) {
    refuse(recipe,
           "needs train.update = \"layer\", got \"step\", which holds all gradients; "
           "choose train.update = \"layer\"");
  }
  if (gradient_store(recipe) == GradientStore::kProjected) {
    refuse(recipe,
           "needs gradients that are used up one by one, but a step that takes several "
           "passes or is clipped by its own norm holds all of them; choose "
           "train.microbatch = 0 with optim.clip_by = \"previous\" or optim.clip = 0");
  }
  if (recipe.optim.clip > 0 && recipe.optim.clip_by == config::ClipBy::kTensor) {
    refuse(recipe,
           "changes rows before the norm of their whole tensor is known, got "
           "optim.clip_by = \"tensor\"; choose optim.clip_by = \"previous\", "
           "optim.clip = 0");
  }
  check_rows(recipe);
}

int64_t formed_elements(const TensorSpec& tensor, int64_t slabs) {
  if (!tensor.is_vocabulary_sized()) return tensor.count();
  const int64_t width = tensor.shape.back();
  return slab_rows(tensor.count() / width, width, slabs) * width;
}

}  // namespace thinwire::method

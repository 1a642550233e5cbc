// Refusals of what a step holds in memory: gradients, and in which form weights, factors and the
// optimizer's state are kept.
#include <algorithm>

#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/refusals.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"
#include "thinwire/optimizers/galore/galore_spec.h"

namespace thinwire::method {
namespace {

const OptimizerSpec& optimizer_of(const Recipe& recipe) {
  return find_optimizer(recipe.optim.method);
}

// Whether the recipe's optimizer, or another one with its options, keeps bases of subspaces.
bool keeps_bases(const OptimizerSpec& optimizer, const Recipe& recipe) {
  OptimizerOptions options = optimizer_options(recipe);
  options.spec = &optimizer;
  ModelSpec model(recipe);
  model.vocab = std::max<int64_t>(model.vocab, 1);  // may not be known yet, and does not matter
  return std::ranges::any_of(tensors_of(model), [&](const TensorSpec& tensor) {
    return std::ranges::any_of(optimizer.state(options, tensor), [](const StatePiece& piece) {
      return piece.kind == StateKind::kBasis;
    });
  });
}

// Optimizers with a rank of their own project the gradients of whole matrices.
bool has_rank(const Recipe& recipe) {
  const auto section = recipe.section(recipe.optim.method).clone();
  config::Fields fields;
  section->describe(fields);
  return std::ranges::find(fields.all(), "rank", &config::Field::name) != fields.all().end();
}

// The alternative that a projecting optimizer offers.
std::string or_projected(const Recipe& recipe) {
  return optimizer_of(recipe).subspace != nullptr ? "optim.gradients = \"projected\", " : "";
}

constexpr Side kUnequal{"sync.shares", [](const Recipe& recipe) {
                          return recipe.sync.shares != config::RowShares::kEqual;
                        }};
constexpr Side kLayer{"train.update", [](const Recipe& recipe) {
                        return recipe.train.update == config::UpdateTime::kLayer;
                      }};
// Each tensor's gradient is used up as soon as it is complete.
constexpr Side kStreamed{"train.update", [](const Recipe& recipe) {
                           return gradient_store(recipe) == GradientStore::kStreamed;
                         }};
constexpr Side kClipsOtherwise{"optim.clip_by", [](const Recipe& recipe) {
                                 return recipe.optim.clip > 0 &&
                                        recipe.optim.clip_by != config::ClipBy::kStep;
                               }};
// The method that takes a step's gradients takes them together.
constexpr Side kTakesAll{"sync.method", [](const Recipe& recipe) {
                           return !local_updates(recipe) && !method_of(recipe).streams;
                         }};
constexpr Side kTakesAllWithin{"sync.within", [](const Recipe& recipe) {
                                 return recipe.sync.clustered() &&
                                        !find_method(name_of(recipe.sync.within)).streams;
                               }};
constexpr Side kInPlace{"adapter.kind",
                        [](const Recipe& recipe) { return !facts_of(recipe.adapter).has_base; }};
constexpr Side kMerging{"adapter.kind",
                        [](const Recipe& recipe) { return facts_of(recipe.adapter).merges; }};
constexpr Side kSlabs{"model.vocab_slabs",
                      [](const Recipe& recipe) { return recipe.model.vocab_slabs != 1; }};
constexpr Side kEncodedWeights{
    "train.weights", [](const Recipe& recipe) { return is_encoded(recipe.train.weights); }};
constexpr Side kBf16Inputs{"model.block_inputs", [](const Recipe& recipe) {
                             return recipe.model.block_inputs != Precision::kFp32;
                           }};
constexpr Side kSmallState{
    "optim.state", [](const Recipe& recipe) { return recipe.optim.state != StateFormat::kF32; }};
constexpr Side kNotBf16{"train.precision", [](const Recipe& recipe) {
                          return recipe.train.precision != Precision::kBf16;
                        }};

}  // namespace

std::span<const Pair> refusals_of_memory() {
  static const Pair pairs[] = {
      {kClipsOtherwise, kTakesAll,
       "[optim] clip_by = {one} contradicts sync.method = {other}, which clips the whole gradient "
       "of "
       "a step; choose clip_by = \"step\""},
      {kClipsOtherwise, kTakesAllWithin,
       "[optim] clip_by = {one} contradicts sync.within = {other}, which clips the whole gradient "
       "of "
       "a step; choose clip_by = \"step\""},
      {kProjected,
       {"optim.method",
        [](const Recipe& recipe) { return optimizer_of(recipe).subspace == nullptr; }},
       "[optim] gradients = {one} needs an optimizer that uses only a projection of a matrix's "
       "gradient, {able}, got method = {other}; choose one of them or gradients = \"whole\"",
       [](const Recipe&) {
         return names_of(all_optimizers(), " or ",
                         [](const OptimizerSpec& one) { return one.subspace != nullptr; });
       }},
      {{"optim.gradients",
        [](const Recipe& recipe) { return projects(recipe) && !draws_bases(recipe); }},
       kClustered,
       "[optim] gradients = {one} needs sync.within = \"none\", got {other}: the workers of a "
       "cluster do not agree on bases; leave clusters out, or choose gradients = \"whole\", or "
       "galore with galore.basis = \"seeded\""},
      {kProjected, kAdapted,
       "[optim] gradients = {one} needs [adapter] kind = \"none\", got {other}: gradients of "
       "factors "
       "are formed whole"},

      {kSlabs,
       {"model.tied", [](const Recipe& recipe) { return recipe.model.tied; }},
       "[model] vocab_slabs = {one} needs tied = false, got {other}: the gradient of an embedding "
       "that is also the head is held from the first product of the backward pass to the last; "
       "choose tied = false, or model.vocab_slabs = 1"},
      {kSlabs, kEncoder,
       "[model] vocab_slabs = {one} needs an architecture whose head predicts tokens, got {other}; "
       "choose another one, or model.vocab_slabs = 1"},
      {kSlabs, kElsewhere,
       "[model] vocab_slabs = {one} needs train.device = \"cpu\", got {other}; choose \"cpu\", or "
       "model.vocab_slabs = 1"},
      {kSlabs,
       {"train.update",
        [](const Recipe& recipe) { return recipe.train.update == config::UpdateTime::kStep; }},
       "[model] vocab_slabs = {one} needs train.update = \"layer\", got {other}, which holds all "
       "gradients; choose train.update = \"layer\", or model.vocab_slabs = 1"},
      {kSlabs,
       {"optim.gradients",
        [](const Recipe& recipe) { return gradient_store(recipe) == GradientStore::kProjected; }},
       "[model] vocab_slabs = {one} needs gradients that are used up one by one, but a step that "
       "takes several passes or is clipped by its own norm holds all of them; choose "
       "train.microbatch = 0 with optim.clip_by = \"previous\" or optim.clip = 0, or "
       "model.vocab_slabs = 1"},
      {kSlabs,
       {"optim.clip_by",
        [](const Recipe& recipe) {
          return recipe.optim.clip > 0 && recipe.optim.clip_by == config::ClipBy::kTensor;
        }},
       "[model] vocab_slabs = {one} changes rows before the norm of their whole tensor is known, "
       "got "
       "optim.clip_by = {other}; choose optim.clip_by = \"previous\", optim.clip = 0, or "
       "model.vocab_slabs = 1"},
      {kSlabs,
       {"optim.method",
        [](const Recipe& recipe) { return !optimizer_of(recipe).vocabulary_by_rows; }},
       "[model] vocab_slabs = {one} needs an optimizer that can update some rows of embedding and "
       "head before the others, got optim.method = {other}; choose one of {able}, or "
       "model.vocab_slabs = 1",
       [](const Recipe&) {
         return names_of(all_optimizers(), ", ",
                         [](const OptimizerSpec& one) { return one.vocabulary_by_rows; });
       }},

      {kLayer, kTakesAll,
       "[train] update = {one} needs a method that takes gradients one by one, got sync.method = "
       "{other}, which compresses a step's whole gradient; choose sync.method = {able}, or "
       "train.update = \"step\"",
       [](const Recipe&) {
         return names_of(all_methods(), ", ",
                         [](const Method& one) { return one.streams || one.local_updates; });
       }},
      {kLayer, kTakesAllWithin,
       "[train] update = {one} needs a method that takes gradients one by one, got sync.within = "
       "{other}, which compresses a step's whole gradient; choose sync.within = allreduce, or "
       "train.update = \"step\""},
      {kStreamed,
       {"optim.clip",
        [](const Recipe& recipe) {
          return recipe.optim.clip > 0 && recipe.optim.clip_by == config::ClipBy::kStep;
        }},
       "[train] update = {one} changes weights before the norm of the whole gradient is known, got "
       "optim.clip = {other} with optim.clip_by = \"step\"; choose optim.clip_by = \"previous\" or "
       "\"tensor\", {able}optim.clip = 0, or train.update = \"step\"",
       or_projected},
      {kStreamed,
       {"train.microbatch",
        [](const Recipe& recipe) {
          const config::TrainSection& train = recipe.train;
          return train.microbatch * train.workers < train.batch && train.microbatch != 0;
        }},
       "[train] update = {one} takes a worker's rows of a step in one pass, since adding up the "
       "gradients of several would hold all of them, got microbatch = {other} of "
       "{able}train.microbatch = 0, a smaller train.batch, model.recompute = \"block\" to save "
       "memory otherwise, or train.update = \"step\"",
       [](const Recipe& recipe) {
         const config::TrainSection& train = recipe.train;
         return fmt::format("{} rows; choose {}", (train.batch + train.workers - 1) / train.workers,
                            or_projected(recipe));
       }},
      {kStreamed, kUnequal,
       "[train] update = {one} takes a worker's rows of a step in one pass, since adding up the "
       "gradients of several would hold all of them, got sync.shares = {other}, by which it may be "
       "given more rows than a pass takes; choose sync.shares = \"equal\" or train.update = "
       "\"step\""},
      {kStreamed, kAbsent,
       "[train] update = {one} takes a worker's rows of a step in one pass, since adding up the "
       "gradients of several would hold all of them, got sync.absent = {other}, whose rows others "
       "take besides their own; leave it out, or choose train.update = \"step\""},

      {kSmallWeights, kNotBf16,
       "[train] weights = {one} needs precision = \"bf16\", got {other}: matrix products take the "
       "weights as they are kept"},
      {kSmallWeights, kElsewhere, "[train] weights = {one} needs device = \"cpu\", got {other}"},
      {kEncodedWeights,
       {"adapter.kind",
        [](const Recipe& recipe) { return recipe.adapter.kind != AdapterKind::kLora; }},
       "[train] weights = {one} needs [adapter] kind = \"lora\", got {other}: only weights that no "
       "step changes can be kept in 4 or 8 bits"},
      {kSmallWeights,
       {"adapter.kind",
        [](const Recipe& recipe) {
          return is_adapted(recipe.adapter) && recipe.adapter.kind != AdapterKind::kLora;
        }},
       "[train] weights = {one} needs [adapter] kind = \"lora\" or \"none\", got {other}, which "
       "changes all matrices in fp32"},
      {{"train.weights",
        [](const Recipe& recipe) {
          return recipe.train.weights != WeightFormat::kF32 && !is_adapted(recipe.adapter);
        }},
       {"sync.method", [](const Recipe& recipe) { return !method_of(recipe).keeps_bf16_weights; }},
       "[train] weights = {one} needs a method that changes weights only through the optimizer "
       "({able}), got sync.method = {other}",
       [](const Recipe&) {
         return names_of(all_methods(), ", ",
                         [](const Method& one) { return one.keeps_bf16_weights; });
       }},
      {{"optim.bases",
        [](const Recipe& recipe) { return recipe.optim.bases != StateFormat::kF32; }},
       {"optim.method",
        [](const Recipe& recipe) { return !keeps_bases(optimizer_of(recipe), recipe); }},
       "[optim] bases = {one} needs an optimizer that keeps bases of subspaces ({able}), got "
       "method "
       "= {other}; choose one of them or bases = \"fp32\"",
       [](const Recipe& recipe) {
         return names_of(all_optimizers(), ", ",
                         [&](const OptimizerSpec& one) { return keeps_bases(one, recipe); });
       }},
      {kBf16Inputs,
       {"model.recompute",
        [](const Recipe& recipe) { return recipe.model.recompute != config::Recompute::kBlock; }},
       "[model] block_inputs = {one} needs recompute = \"block\", got {other}: otherwise blocks "
       "keep "
       "more than their inputs"},
      {kBf16Inputs, kNotBf16,
       "[model] block_inputs = {one} needs train.precision = \"bf16\", got {other}: they are "
       "rounded "
       "like what the matrix products read"},
      {{"train.offload", [](const Recipe& recipe) { return recipe.train.offload; }},
       {"train.device",
        [](const Recipe& recipe) {
          return recipe.train.device != config::DeviceChoice::kCpu &&
                 recipe.train.device != config::DeviceChoice::kAuto;
        }},
       "[train] offload = {one} needs device = \"cpu\", got {other}: a device computes with "
       "weights "
       "in its own memory"},

      {{"adapter.kind",
        [](const Recipe& recipe) { return recipe.adapter.kind == AdapterKind::kLora; }},
       {"train.init", [](const Recipe& recipe) { return recipe.train.init.empty(); }},
       "[adapter] kind = {one} needs [train] init, the model that it adapts, got {other}; to train "
       "from scratch, choose relora or low_rank"},
      {kInPlace,
       {"train.init", [](const Recipe& recipe) { return !recipe.train.init.empty(); }},
       "[adapter] kind = {one} trains factors in place of matrices, from scratch, got [train] init "
       "= "
       "{other}; leave it out, or choose lora"},
      {{"adapter.whole", [](const Recipe& recipe) { return !recipe.adapter.whole.empty(); }},
       kInPlace,
       "[adapter] whole = {one} has no effect with kind = {other}, which trains all tensors "
       "without "
       "factors; leave it out"},
      {{"adapter.init", [](const Recipe& recipe) { return !recipe.adapter.init.empty(); }},
       {"adapter.kind",
        [](const Recipe& recipe) {
          return is_adapted(recipe.adapter) && recipe.adapter.kind != AdapterKind::kLora;
        }},
       "[adapter] init = {one} needs kind = \"lora\", got {other}"},
      {kAdapted,
       {"optim.method", has_rank},
       "[adapter] kind = {one} trains matrices of low rank, got [optim] method = {other}, which "
       "projects the gradients of whole matrices; choose adamw, muon or scale, or adapter.kind = "
       "\"none\""},
      {kMerging,
       {"sync.method", [](const Recipe& recipe) { return recipe.sync.method != kAllReduce.name; }},
       "[adapter] kind = {one} adds the factors to the matrices of all workers in the same step, "
       "when nothing is in flight, and needs [sync] method = \"allreduce\", got {other}; lora and "
       "low_rank work with every method"},
      {kMerging,
       {"optim.method", [](const Recipe& recipe) { return !optimizer_of(recipe).can_reset; }},
       "[adapter] kind = {one} resets the state of [optim] method = \"adamw\", got {other}"},
      {kMerging, kSmallState,
       "[adapter] kind = {one} resets the smallest values of the optimizer's state and needs "
       "[optim] "
       "state = \"fp32\", got {other}"},
  };
  return pairs;
}

}  // namespace thinwire::method

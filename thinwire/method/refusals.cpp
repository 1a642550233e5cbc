// Which features of a recipe do not go together. Contradictions within the table of one method or
// optimizer are in its own check, those of fields that config alone knows in config/check.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/config/changes.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"
#include "thinwire/optimizers/galore/galore_spec.h"
#include "thinwire/optimizers/own/own_spec.h"

namespace thinwire::method {
namespace {

using config::Recipe;

using Holds = bool (*)(const Recipe& recipe);

// A value of a field, or several.
struct Side {
  std::string_view field;  // "table.field"
  Holds holds;
};

// Two features that do not go together. In the sentence {one} and {other} stand for the values of
// their fields, as a recipe file writes them, and {able} for what able() says of the remedy.
struct Pair {
  Side one;
  Side other;
  std::string_view sentence;
  std::string (*able)(const Recipe& recipe) = nullptr;
};

const Method& method_of(const Recipe& recipe) { return find_method(recipe.sync.method); }
bool local_updates(const Recipe& recipe) { return method_of(recipe).local_updates; }
const OptimizerSpec& optimizer_of(const Recipe& recipe) {
  return find_optimizer(recipe.optim.method);
}
const AdapterFacts& adapter_of(const Recipe& recipe) { return facts_of(recipe.adapter); }
bool encodes(const Recipe& recipe) { return find_architecture(recipe.model.architecture).encodes; }
bool learns_classes(const Recipe& recipe) { return is_labelled(recipe.data.records); }

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

// The names of those of which `is_able` is true.
template <typename Records, typename Able>
std::string names_of(const Records& records, std::string_view separator, const Able& is_able) {
  std::vector<std::string_view> names;
  for (const auto* one : records) {
    if (is_able(*one)) names.push_back(one->name);
  }
  return fmt::format("{}", fmt::join(names, separator));
}

std::string local_update_methods(const Recipe& /*recipe*/) {
  return fmt::format(
      "a method whose workers train independently ({})",
      names_of(all_methods(), ", ", [](const Method& one) { return one.local_updates; }));
}

std::string range_of_clusters(const Recipe& recipe) {
  return fmt::format("clusters >= 1 and <= [train] workers = {}", recipe.train.workers);
}

// The alternative that a projecting optimizer offers.
std::string or_projected(const Recipe& recipe) {
  return optimizer_of(recipe).subspace != nullptr ? "optim.gradients = \"projected\", " : "";
}

bool projects(const Recipe& recipe) {
  return recipe.optim.gradients == config::GradientCoordinates::kProjected;
}

// Sides of several pairs.
constexpr Side kEveryStep{"sync.method",
                          [](const Recipe& recipe) { return !local_updates(recipe); }};
constexpr Side kClustered{"sync.within",
                          [](const Recipe& recipe) { return recipe.sync.clustered(); }};
constexpr Side kUnequal{"sync.shares", [](const Recipe& recipe) {
                          return recipe.sync.shares != config::RowShares::kEqual;
                        }};
constexpr Side kBySpeed{"sync.shares", [](const Recipe& recipe) {
                          return recipe.sync.shares == config::RowShares::kSpeed;
                        }};
constexpr Side kByOwnRows{"sync.shares", [](const Recipe& recipe) {
                            return recipe.sync.shares == config::RowShares::kOwn;
                          }};
constexpr Side kOwnText{"data.own", [](const Recipe& recipe) { return recipe.data.own; }};
constexpr Side kPrivate{"privacy.clip",
                        [](const Recipe& recipe) { return recipe.privacy.clip > 0; }};
constexpr Side kAbsent{"sync.absent",
                       [](const Recipe& recipe) { return !recipe.sync.absent.empty(); }};
constexpr Side kLate{"sync.late", [](const Recipe& recipe) {
                       return recipe.sync.late != config::LateContributions::kDrop;
                     }};
constexpr Side kRobust{"sync.aggregate",
                       [](const Recipe& recipe) { return recipe.sync.aggregation().robust(); }};
constexpr Side kEncoder{"model.architecture", encodes};
constexpr Side kExternalModel{"model.architecture", is_external};
constexpr Side kOwnSteps{"optim.method", takes_own_steps};
constexpr Side kTasks{"eval.tasks",
                      [](const Recipe& recipe) { return !recipe.eval.tasks.empty(); }};
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
constexpr Side kProjected{"optim.gradients", projects};
constexpr Side kAdapted{"adapter.kind",
                        [](const Recipe& recipe) { return is_adapted(recipe.adapter); }};
constexpr Side kInPlace{"adapter.kind",
                        [](const Recipe& recipe) { return !adapter_of(recipe).has_base; }};
constexpr Side kMerging{"adapter.kind",
                        [](const Recipe& recipe) { return adapter_of(recipe).merges; }};
constexpr Side kSlabs{"model.vocab_slabs",
                      [](const Recipe& recipe) { return recipe.model.vocab_slabs != 1; }};
constexpr Side kSmallWeights{"train.weights", [](const Recipe& recipe) {
                               return recipe.train.weights != WeightFormat::kF32;
                             }};
constexpr Side kNf4Weights{"train.weights", [](const Recipe& recipe) {
                             return recipe.train.weights == WeightFormat::kNf4;
                           }};
constexpr Side kBf16Inputs{"model.block_inputs", [](const Recipe& recipe) {
                             return recipe.model.block_inputs != Precision::kFp32;
                           }};
constexpr Side kSmallState{
    "optim.state", [](const Recipe& recipe) { return recipe.optim.state != StateFormat::kF32; }};
constexpr Side kElsewhere{"train.device", [](const Recipe& recipe) {
                            return recipe.train.device != config::DeviceChoice::kCpu;
                          }};
constexpr Side kNotBf16{"train.precision", [](const Recipe& recipe) {
                          return recipe.train.precision != Precision::kBf16;
                        }};

// The first that applies is reported.
const Pair kPairs[] = {
    {{"data.records", learns_classes},
     {"model.architecture", [](const Recipe& recipe) { return !encodes(recipe); }},
     "[data] records = {one} needs an encoder, [model] architecture = \"roberta\", got {other}"},
    {kEncoder,
     {"data.records", [](const Recipe& recipe) { return !learns_classes(recipe); }},
     "[model] architecture = {one} learns the classes of texts, or numbers: it needs [data] "
     "records "
     "= \"labels\" or \"numbers\", got {other}"},
    {kTasks, kEncoder,
     "[eval] tasks score the likelihood of texts, which [model] architecture = {other} does not "
     "give; data.validation_text names sets whose accuracy is measured"},

    {kExternalModel,
     {"train.sequence", [](const Recipe& recipe) { return recipe.train.sequence != 1; }},
     "[model] architecture = {one} needs [train] sequence = 1, got {other}: a row is whatever the "
     "program takes it for, and counts once"},
    {kExternalModel,
     {"data.records",
      [](const Recipe& recipe) { return recipe.data.records != config::RecordKind::kText; }},
     "[model] architecture = {one} has rows that only the program knows, got [data] records = "
     "{other}; leave it out"},
    {kExternalModel, kOwnText,
     "[model] architecture = {one} has rows that only the program knows, so each member trains on "
     "its own anyway, got [data] own = {other}; leave it out"},
    {kOwnText,
     {"data.records",
      [](const Recipe& recipe) {
        return recipe.data.records != config::RecordKind::kText &&
               recipe.data.records != config::RecordKind::kPrompts;
      }},
     "[data] own = {one} needs records = \"text\" or \"prompts\", got {other}: members receive the "
     "run's vocabulary to prepare their text with, but neither a chat template nor names of "
     "classes"},
    {kByOwnRows,
     {"data.own", [](const Recipe& recipe) { return !recipe.data.own; }},
     "[sync] shares = {one} needs [data] own = true, got {other}: otherwise all members have the "
     "same rows"},

    {kPrivate,
     {"data.own", [](const Recipe& recipe) { return !recipe.data.own; }},
     "[privacy] clip = {one} needs [data] own = true, got {other}: what all members have needs no "
     "hiding"},
    {kPrivate,
     {"sync.method", [](const Recipe& recipe) { return !method_of(recipe).makes_private; }},
     "[privacy] clip = {one} needs a method whose members sum changes of all weights ({able}), got "
     "[sync] method = {other}: the bound is on a change as a whole",
     [](const Recipe&) {
       return names_of(all_methods(), ", ", [](const Method& one) { return one.makes_private; });
     }},
    {{"privacy.noise", [](const Recipe& recipe) { return recipe.privacy.noisy(); }},
     {"sync.shares",
      [](const Recipe& recipe) { return recipe.sync.shares == config::RowShares::kSpeed; }},
     "[privacy] noise = {one} needs [sync] shares = \"equal\" or \"own\", got {other}: how long a "
     "member computes would be told without noise"},

    {kExternalModel, kTasks,
     "[model] architecture = {one} is no model of texts, which [eval] tasks = {other} need"},
    {kExternalModel,
     {"eval.patience", [](const Recipe& recipe) { return recipe.eval.patience > 0; }},
     "[model] architecture = {one} has no validation set, which [eval] patience = {other} needs"},
    {kExternalModel,
     {"checkpoint.best", [](const Recipe& recipe) { return recipe.checkpoint.best; }},
     "[model] architecture = {one} has no validation set, which [checkpoint] best = {other} needs"},
    {kExternalModel, kAdapted,
     "[model] architecture = {one} is trained as it is, got [adapter] kind = {other}"},
    {kExternalModel, kProjected,
     "[model] architecture = {one} gives whole gradients, got [optim] gradients = {other}"},
    {kExternalModel, kSmallWeights,
     "[model] architecture = {one} has its weights in fp32, got [train] weights = {other}"},
    {kExternalModel, kElsewhere,
     "[model] architecture = {one} has its weights in the processor's memory, got [train] device = "
     "{other}; the program may copy them to a device"},
    {kExternalModel,
     {"train.offload", [](const Recipe& recipe) { return recipe.train.offload; }},
     "[model] architecture = {one} has its weights in memory, got [train] offload = {other}"},
    {kExternalModel,
     {"train.launcher",
      [](const Recipe& recipe) { return recipe.train.launcher != config::Launcher::kThreads; }},
     "[model] architecture = {one} is computed by threads of the program, got [train] launcher = "
     "{other}"},

    {kOwnSteps,
     {"model.architecture", [](const Recipe& recipe) { return !is_external(recipe); }},
     "[optim] method = {one} is the step of a program with a model of its own and needs [model] "
     "architecture = \"external\", got {other}"},
    {kOwnSteps, kEveryStep,
     "[optim] method = {one} needs {able}, got [sync] method = {other}, whose replicas take each "
     "step with what they share of their gradients",
     local_update_methods},
    {kOwnSteps, kClustered,
     "[optim] method = {one} needs [sync] within = \"none\", got {other}: the workers of a cluster "
     "take each step with what they share of their gradients"},

    {{"sync.clusters", [](const Recipe& recipe) { return recipe.sync.clusters > 0; }},
     {"sync.within", [](const Recipe& recipe) { return !recipe.sync.clustered(); }},
     "[sync] clusters = {one} needs within = \"allreduce\" or \"distro\", got {other}, and {able}",
     local_update_methods},
    {kClustered, kEveryStep,
     "[sync] within = {one} needs {able}, got method = {other}, which synchronises all workers "
     "every step",
     [](const Recipe& recipe) {
       return local_update_methods(recipe) + " and " + range_of_clusters(recipe);
     }},
    {kClustered,
     {"sync.clusters", [](const Recipe& recipe) { return recipe.sync.clusters == 0; }},
     "[sync] within = {one} needs {able}, got none",
     range_of_clusters},
    {kBySpeed, kEveryStep,
     "[sync] shares = {one} needs {able}, got method = {other}, which synchronises all of them "
     "every step: there are no rounds of independent steps over which workers' speeds could be "
     "measured and agreed on",
     local_update_methods},
    {kAbsent, kEveryStep,
     "[sync] absent = {one} needs {able}, got method = {other}, which synchronises all of them "
     "every step: there are no rounds of independent steps to be absent from",
     local_update_methods},
    {kLate,
     {"sync.method", [](const Recipe& recipe) { return !method_of(recipe).sums_late; }},
     "[sync] late = {one} needs method = {able}, got {other}: late changes of weights still count, "
     "late gradients are of weights that are gone",
     [](const Recipe&) {
       return names_of(all_methods(), " or ", [](const Method& one) { return one.sums_late; });
     }},
    {kLate, kRobust,
     "[sync] late = {one} needs aggregate = \"mean\", got {other}: other rules compare "
     "contributions of one round"},
    {{"sync.trim",
      [](const Recipe& recipe) { return recipe.sync.trim != config::SyncSection().trim; }},
     {"sync.aggregate",
      [](const Recipe& recipe) { return recipe.sync.aggregate != Aggregate::kTrimmedMean; }},
     "[sync] trim = {one} needs aggregate = \"trimmed_mean\", got {other}"},

    {kClipsOtherwise, kTakesAll,
     "[optim] clip_by = {one} contradicts sync.method = {other}, which clips the whole gradient of "
     "a "
     "step; choose clip_by = \"step\""},
    {kClipsOtherwise, kTakesAllWithin,
     "[optim] clip_by = {one} contradicts sync.within = {other}, which clips the whole gradient of "
     "a "
     "step; choose clip_by = \"step\""},
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
     "cluster "
     "do not agree on bases; leave clusters out, or choose gradients = \"whole\", or galore with "
     "galore.basis = \"seeded\""},
    {kProjected, kAdapted,
     "[optim] gradients = {one} needs [adapter] kind = \"none\", got {other}: gradients of factors "
     "are formed whole"},

    {kSlabs,
     {"model.tied", [](const Recipe& recipe) { return recipe.model.tied; }},
     "[model] vocab_slabs = {one} needs tied = false, got {other}: the gradient of an embedding "
     "that "
     "is also the head is held from the first product of the backward pass to the last; choose "
     "tied = false, or model.vocab_slabs = 1"},
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
     "takes "
     "several passes or is clipped by its own norm holds all of them; choose train.microbatch = 0 "
     "with optim.clip_by = \"previous\" or optim.clip = 0, or model.vocab_slabs = 1"},
    {kSlabs,
     {"optim.clip_by",
      [](const Recipe& recipe) {
        return recipe.optim.clip > 0 && recipe.optim.clip_by == config::ClipBy::kTensor;
      }},
     "[model] vocab_slabs = {one} changes rows before the norm of their whole tensor is known, got "
     "optim.clip_by = {other}; choose optim.clip_by = \"previous\", optim.clip = 0, or "
     "model.vocab_slabs = 1"},
    {kSlabs,
     {"optim.method",
      [](const Recipe& recipe) { return !optimizer_of(recipe).vocabulary_by_rows; }},
     "[model] vocab_slabs = {one} needs an optimizer that can update some rows of embedding and "
     "head "
     "before the others, got optim.method = {other}; choose one of {able}, or model.vocab_slabs = "
     "1",
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
     "gradients of several would hold all of them, got microbatch = {other} of {able}"
     "train.microbatch = 0, a smaller train.batch, model.recompute = \"block\" to save memory "
     "otherwise, or train.update = \"step\"",
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
     "take "
     "besides their own; leave it out, or choose train.update = \"step\""},

    {kSmallWeights, kNotBf16,
     "[train] weights = {one} needs precision = \"bf16\", got {other}: matrix products take the "
     "weights as they are kept"},
    {kSmallWeights, kElsewhere, "[train] weights = {one} needs device = \"cpu\", got {other}"},
    {kNf4Weights,
     {"adapter.kind",
      [](const Recipe& recipe) { return recipe.adapter.kind != AdapterKind::kLora; }},
     "[train] weights = {one} needs [adapter] kind = \"lora\", got {other}: only weights that no "
     "step changes can be kept in 4 bits"},
    {kSmallWeights,
     {"adapter.kind",
      [](const Recipe& recipe) {
        return is_adapted(recipe.adapter) && recipe.adapter.kind != AdapterKind::kLora;
      }},
     "[train] weights = {one} needs [adapter] kind = \"lora\" or \"none\", got {other}, which "
     "changes "
     "all matrices in fp32"},
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
    {{"optim.bases", [](const Recipe& recipe) { return recipe.optim.bases != StateFormat::kF32; }},
     {"optim.method",
      [](const Recipe& recipe) { return !keeps_bases(optimizer_of(recipe), recipe); }},
     "[optim] bases = {one} needs an optimizer that keeps bases of subspaces ({able}), got method "
     "= "
     "{other}; choose one of them or bases = \"fp32\"",
     [](const Recipe& recipe) {
       return names_of(all_optimizers(), ", ",
                       [&](const OptimizerSpec& one) { return keeps_bases(one, recipe); });
     }},
    {kBf16Inputs,
     {"model.recompute",
      [](const Recipe& recipe) { return recipe.model.recompute != config::Recompute::kBlock; }},
     "[model] block_inputs = {one} needs recompute = \"block\", got {other}: otherwise blocks keep "
     "more than their inputs"},
    {kBf16Inputs, kNotBf16,
     "[model] block_inputs = {one} needs train.precision = \"bf16\", got {other}: they are rounded "
     "like what the matrix products read"},
    {{"train.offload", [](const Recipe& recipe) { return recipe.train.offload; }},
     {"train.device",
      [](const Recipe& recipe) {
        return recipe.train.device != config::DeviceChoice::kCpu &&
               recipe.train.device != config::DeviceChoice::kAuto;
      }},
     "[train] offload = {one} needs device = \"cpu\", got {other}: a device computes with weights "
     "in "
     "its own memory"},

    {{"adapter.kind",
      [](const Recipe& recipe) { return recipe.adapter.kind == AdapterKind::kLora; }},
     {"train.init", [](const Recipe& recipe) { return recipe.train.init.empty(); }},
     "[adapter] kind = {one} needs [train] init, the model that it adapts, got {other}; to train "
     "from scratch, choose relora or low_rank"},
    {kInPlace,
     {"train.init", [](const Recipe& recipe) { return !recipe.train.init.empty(); }},
     "[adapter] kind = {one} trains factors in place of matrices, from scratch, got [train] init = "
     "{other}; leave it out, or choose lora"},
    {{"adapter.whole", [](const Recipe& recipe) { return !recipe.adapter.whole.empty(); }},
     kInPlace,
     "[adapter] whole = {one} has no effect with kind = {other}, which trains all tensors without "
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
     "when "
     "nothing is in flight, and needs [sync] method = \"allreduce\", got {other}; lora and "
     "low_rank "
     "work with every method"},
    {kMerging,
     {"optim.method", [](const Recipe& recipe) { return !optimizer_of(recipe).can_reset; }},
     "[adapter] kind = {one} resets the state of [optim] method = \"adamw\", got {other}"},
    {kMerging, kSmallState,
     "[adapter] kind = {one} resets the smallest values of the optimizer's state and needs [optim] "
     "state = \"fp32\", got {other}"},
};

}  // namespace

void check_pairs(const Recipe& recipe) {
  for (const Pair& pair : kPairs) {
    if (!pair.one.holds(recipe) || !pair.other.holds(recipe)) continue;
    throw UsageError(fmt::format(fmt::runtime(pair.sentence),
                                 fmt::arg("one", config::printed_value(recipe, pair.one.field)),
                                 fmt::arg("other", config::printed_value(recipe, pair.other.field)),
                                 fmt::arg("able", pair.able == nullptr ? "" : pair.able(recipe))));
  }
}

}  // namespace thinwire::method

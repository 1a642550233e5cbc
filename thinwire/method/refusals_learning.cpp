// Refusals of what is learnt: from which records and whose text, by which model and whose steps.
#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/method/refusals.h"
#include "thinwire/optimizers/own/own_spec.h"

namespace thinwire::method {
namespace {

bool encodes(const Recipe& recipe) { return kEncoder.holds(recipe); }
bool learns_classes(const Recipe& recipe) { return is_labelled(recipe.data.records); }

constexpr Side kByOwnRows{"sync.shares", [](const Recipe& recipe) {
                            return recipe.sync.shares == config::RowShares::kOwn;
                          }};
constexpr Side kOwnText{"data.own", [](const Recipe& recipe) { return recipe.data.own; }};
constexpr Side kPrivate{"privacy.clip",
                        [](const Recipe& recipe) { return recipe.privacy.clip > 0; }};
constexpr Side kSecure{"privacy.secure_sums",
                       [](const Recipe& recipe) { return recipe.privacy.secure_sums; }};
constexpr Side kExternalModel{"model.architecture", is_external};
constexpr Side kOwnSteps{"optim.method", takes_own_steps};
constexpr Side kTasks{"eval.tasks",
                      [](const Recipe& recipe) { return !recipe.eval.tasks.empty(); }};

}  // namespace

std::span<const Pair> refusals_of_learning() {
  static const Pair pairs[] = {
      {{"data.records", learns_classes},
       {"model.architecture", [](const Recipe& recipe) { return !encodes(recipe); }},
       "[data] records = {one} needs an encoder, [model] architecture = \"roberta\", got {other}"},
      {kEncoder,
       {"data.records", [](const Recipe& recipe) { return !learns_classes(recipe); }},
       "[model] architecture = {one} learns the classes of texts, or numbers: it needs [data] "
       "records = \"labels\" or \"numbers\", got {other}"},
      {kTasks, kEncoder,
       "[eval] tasks score the likelihood of texts, which [model] architecture = {other} does not "
       "give; data.validation_text names sets whose accuracy is measured"},

      {kExternalModel,
       {"train.sequence", [](const Recipe& recipe) { return recipe.train.sequence != 1; }},
       "[model] architecture = {one} needs [train] sequence = 1, got {other}: a row is whatever "
       "the "
       "program takes it for, and counts once"},
      {kExternalModel,
       {"data.records",
        [](const Recipe& recipe) { return recipe.data.records != config::RecordKind::kText; }},
       "[model] architecture = {one} has rows that only the program knows, got [data] records = "
       "{other}; leave it out"},
      {kExternalModel, kOwnText,
       "[model] architecture = {one} has rows that only the program knows, so each member trains "
       "on "
       "its own anyway, got [data] own = {other}; leave it out"},
      {kOwnText,
       {"data.records",
        [](const Recipe& recipe) {
          return recipe.data.records != config::RecordKind::kText &&
                 recipe.data.records != config::RecordKind::kPrompts;
        }},
       "[data] own = {one} needs records = \"text\" or \"prompts\", got {other}: members receive "
       "the "
       "run's vocabulary to prepare their text with, but neither a chat template nor names of "
       "classes"},
      {kByOwnRows,
       {"data.own", [](const Recipe& recipe) { return !recipe.data.own; }},
       "[sync] shares = {one} needs [data] own = true, got {other}: otherwise all members have the "
       "same rows"},

      {kPrivate,
       {"data.own", [](const Recipe& recipe) { return !recipe.data.own && !is_external(recipe); }},
       "[privacy] clip = {one} needs [data] own = true, got {other}: what all members have needs "
       "no "
       "hiding"},
      {kPrivate,
       {"sync.method", [](const Recipe& recipe) { return !method_of(recipe).makes_private; }},
       "[privacy] clip = {one} needs a method whose members sum changes of all weights ({able}), "
       "got "
       "[sync] method = {other}: the bound is on a change as a whole",
       [](const Recipe&) {
         return names_of(all_methods(), ", ", [](const Method& one) { return one.makes_private; });
       }},
      {kSecure,
       {"data.own", [](const Recipe& recipe) { return !recipe.data.own && !is_external(recipe); }},
       "[privacy] secure_sums = {one} needs [data] own = true, got {other}: what all members have "
       "needs no hiding"},
      {kSecure,
       {"sync.method", [](const Recipe& recipe) { return !method_of(recipe).makes_private; }},
       "[privacy] secure_sums = {one} needs a method whose members sum changes of all weights, got "
       "[sync] method = {other}; choose local_sgd or diloco"},
      {kSecure,
       {"sync.aggregate", [](const Recipe& recipe) { return recipe.sync.aggregation().robust(); }},
       "[privacy] secure_sums = {one} needs [sync] aggregate = \"mean\", got {other}: other rules "
       "compare contributions, which nobody sees"},
      {kSecure,
       {"sync.late",
        [](const Recipe& recipe) { return recipe.sync.late != config::LateContributions::kDrop; }},
       "[privacy] secure_sums = {one} needs [sync] late = \"drop\", got {other}: a contribution is "
       "hidden by the masks of its own round"},
      {{"privacy.noise", [](const Recipe& recipe) { return recipe.privacy.noisy(); }},
       {"sync.shares",
        [](const Recipe& recipe) { return recipe.sync.shares == config::RowShares::kSpeed; }},
       "[privacy] noise = {one} needs [sync] shares = \"equal\" or \"own\", got {other}: how long "
       "a "
       "member computes would be told without noise"},

      {kExternalModel, kTasks,
       "[model] architecture = {one} is no model of texts, which [eval] tasks = {other} need"},
      {kExternalModel,
       {"eval.patience", [](const Recipe& recipe) { return recipe.eval.patience > 0; }},
       "[model] architecture = {one} has no validation set, which [eval] patience = {other} needs"},
      {kExternalModel,
       {"checkpoint.best", [](const Recipe& recipe) { return recipe.checkpoint.best; }},
       "[model] architecture = {one} has no validation set, which [checkpoint] best = {other} "
       "needs"},
      {kExternalModel, kAdapted,
       "[model] architecture = {one} is trained as it is, got [adapter] kind = {other}"},
      {kExternalModel, kProjected,
       "[model] architecture = {one} gives whole gradients, got [optim] gradients = {other}"},
      {kExternalModel, kSmallWeights,
       "[model] architecture = {one} has its weights in fp32, got [train] weights = {other}"},
      {kExternalModel, kElsewhere,
       "[model] architecture = {one} has its weights in the processor's memory, got [train] device "
       "= "
       "{other}; the program may copy them to a device"},
      {kExternalModel,
       {"train.offload", [](const Recipe& recipe) { return recipe.train.offload; }},
       "[model] architecture = {one} has its weights in memory, got [train] offload = {other}"},

      {kOwnSteps,
       {"model.architecture", [](const Recipe& recipe) { return !is_external(recipe); }},
       "[optim] method = {one} is the step of a program with a model of its own and needs [model] "
       "architecture = \"external\", got {other}"},
      {kOwnSteps, kEveryStep,
       "[optim] method = {one} needs {able}, got [sync] method = {other}, whose replicas take each "
       "step with what they share of their gradients",
       local_update_methods},
      {kOwnSteps, kClustered,
       "[optim] method = {one} needs [sync] within = \"none\", got {other}: the workers of a "
       "cluster "
       "take each step with what they share of their gradients"},
  };
  return pairs;
}

}  // namespace thinwire::method

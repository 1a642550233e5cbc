#include "thinwire/plan/expected_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/method/method.h"
#include "thinwire/method/registry.h"
#include "thinwire/plan/scaling.h"

namespace thinwire::plan {
namespace {

constexpr std::array kLosses = {
#define THINWIRE_METHOD(Name) &k##Name##Loss,
#include "thinwire/methods/methods.inc"
#undef THINWIRE_METHOD
};

// Null if no run or paper has one. What is only simulated are schedules of DiLoCo.
const AlgorithmLoss* algorithm_of(const Candidate& candidate) {
  if (candidate.simulated) return &kDilocoLoss;
  const std::string_view algorithm = method::find_method(candidate.method).algorithm;
  const auto* const found = std::ranges::find(kLosses, algorithm, &AlgorithmLoss::algorithm);
  return found == kLosses.end() ? nullptr : *found;
}

ExpectedLoss loss_of_method(const LossTerms& terms, const AlgorithmLoss* algorithm) {
  const config::Recipe& recipe = terms.candidate.recipe;
  const bool runs = !terms.candidate.simulated;
  if (runs && recipe.sync.clustered() && recipe.sync.within == config::Within::kDistro) {
    return unknown_loss("no run or paper has DisTrO inside clusters");
  }
  if (algorithm == nullptr) return unknown_loss("no run or paper has a law");
  return algorithm->loss(terms);
}

}  // namespace

ExpectedLoss unknown_loss(std::string why) { return {.basis = std::move(why)}; }

ExpectedLoss all_reduce_loss(const LossTerms& terms) {
  const bool fitted = find_law(terms.own, "allreduce") != nullptr;
  return {
      .nats =
          with_own({}, terms.own).all_reduce.loss(terms.model.non_embedding, terms.model.tokens),
      .basis = fitted ? "own runs of all-reduce" : "all-reduce's law"};
}

ExpectedLoss local_sgd_loss(const LossTerms& terms) {
  if (terms.sync_every == 1) return all_reduce_loss(terms);
  const auto steps = static_cast<double>(terms.sync_every);
  if (steps >= kMaxLocalSteps) {
    return unknown_loss(fmt::format("local SGD's law ends at {} steps", kMaxLocalSteps));
  }
  return {.nats = local_loss(with_own({}, terms.own), terms.model.non_embedding, terms.model.tokens,
                             steps),
          .basis = "local SGD's law"};
}

ExpectedLoss expected_loss(const Candidate& candidate, int64_t sync_every, const LossModel& model,
                           std::span<const MethodLaw> own) {
  const LossTerms terms{candidate, sync_every, model, own};
  const AlgorithmLoss* const algorithm = algorithm_of(candidate);
  ExpectedLoss loss = loss_of_method(terms, algorithm);
  const config::RecordKind records = candidate.recipe.data.records;
  if (is_labelled(records) || records == config::RecordKind::kPreferences) {
    loss.nats.reset();
    loss.gap.reset();
    loss.basis = fmt::format("no law for {}; those known are of text",
                             records == config::RecordKind::kLabels ? "classes" : name_of(records));
  } else if (method::is_external(candidate.recipe)) {
    loss.nats.reset();
    loss.gap.reset();
    loss.basis = "no law for a program's own model";
  } else if (!candidate.recipe.train.init.empty()) {
    loss.nats.reset();
    loss.gap.reset();
    loss.basis = "no law for training that goes on from a model (train.init)";
  }
  if (const MethodLaw* law = find_law(own, candidate.method)) {
    loss.nats = law->loss(model.non_embedding, model.tokens, static_cast<double>(sync_every));
    loss.basis = "own runs";
    loss.gap.reset();
  }
  if (loss.nats && algorithm != nullptr && algorithm->add_late != nullptr) {
    algorithm->add_late(terms, loss);
  }
  return loss;
}

}  // namespace thinwire::plan

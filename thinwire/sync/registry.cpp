#include "thinwire/method/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/sync/algorithm.h"

namespace thinwire::sync {
namespace {

std::vector<const Algorithm*>& table() {
  static std::vector<const Algorithm*> algorithms = {
#define THINWIRE_METHOD(Name) &k##Name,
#include "thinwire/methods/methods.inc"
#undef THINWIRE_METHOD
  };
  return algorithms;
}

const Algorithm& find(std::string_view name) {
  for (const Algorithm* const algorithm : table()) {
    if (algorithm->name == name) return *algorithm;
  }
  throw Error(fmt::format("the algorithm '{}' has a spec but no record", name));
}

[[noreturn]] void refuse(const method::AlgorithmSpec& algorithm, std::string_view command,
                         std::string_view part, std::string_view why) {
  throw UsageError(
      fmt::format("[sync] method: the algorithm \"{}\" cannot be {}: it has no {}, so {}",
                  algorithm.name, command, part, why));
}

}  // namespace

std::span<const Algorithm* const> all_algorithms() { return table(); }

void add_algorithm(const Algorithm& algorithm) {
  if (std::ranges::count(table(), algorithm.name, &Algorithm::name) > 0) {
    throw UsageError(fmt::format("there is an algorithm \"{}\" already", algorithm.name));
  }
  table().push_back(&algorithm);
}

std::unique_ptr<Strategy> make_strategy(const WorkerParts& worker) {
  WorkerParts with_state = worker;
  with_state.spec.optim.offload = worker.params.offload();  // state is where the weights are
  return make_strategy(with_state, worker.spec.method);
}

std::unique_ptr<Strategy> make_strategy(const WorkerParts& worker,
                                        const method::AlgorithmSpec& spec) {
  return find(spec.name).strategy(worker, spec.options);
}

void check_payloads_readable(const method::AlgorithmSpec& algorithm) {
  if (find(algorithm.name).payloads != nullptr) return;
  refuse(algorithm, "served", "payload reader", "nobody could check what members offer");
}

std::unique_ptr<codec::PayloadReader> make_payload_reader(const method::AlgorithmSpec& algorithm,
                                                          const PayloadSource& source) {
  check_payloads_readable(algorithm);
  return find(algorithm.name).payloads(algorithm.options, source);
}

const WireCodec* sum_codec(const method::AlgorithmSpec& algorithm) {
  const auto sums_in = find(algorithm.name).sums_in;
  const std::optional<SumFormats> formats =
      sums_in == nullptr ? std::nullopt : sums_in(algorithm.options);
  return formats ? &codec::wire_codec(*formats) : nullptr;
}

std::optional<GatheredSums> gathered_sums(const config::Recipe& recipe) {
  const method::AlgorithmSpec algorithm = method::sync_spec(recipe).method;
  const auto sums = find(algorithm.name).gathered_sums;
  if (sums == nullptr) return std::nullopt;
  return sums(algorithm.options, [&recipe] { return exchanged_tensors(recipe); });
}

std::vector<TensorSpec> exchanged_tensors(const config::Recipe& recipe) {
  std::vector<TensorSpec> tensors = method::tensors_of(recipe);
  if (method::find_method(recipe.sync.method).local_updates) return tensors;
  return method::gradient_tensors(method::optimizer_options(recipe), tensors);
}

void check_contributions_readable(const method::AlgorithmSpec& algorithm) {
  if (find(algorithm.name).contributions != nullptr) return;
  refuse(algorithm, "audited", "contribution reader",
         "what members send could not be compared with gradients");
}

std::unique_ptr<ContributionReader> make_contribution_reader(const method::AlgorithmSpec& algorithm,
                                                             const tensor::Layout& layout,
                                                             ThreadPool& threads) {
  check_contributions_readable(algorithm);
  return find(algorithm.name).contributions(algorithm.options, layout, threads);
}

}  // namespace thinwire::sync

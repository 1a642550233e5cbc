
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"
#include "thinwire/method/within.h"

namespace thinwire::method {
namespace {

constexpr double kBatchesRead = 1 + kStepsReadAhead;  // the step's own and those read ahead
constexpr double kWorthNaming = 0.1;
constexpr size_t kMaxNamed = 2;

StepMemory worker_memory(const config::Recipe& recipe, int64_t rows) {
  const auto tensors = method::tensors_of(recipe);
  const StateBytes state = find_method(recipe.sync.method).state(recipe, tensors);
  StepMemory memory = step_memory(recipe, tensors, state, rows);
  if (recipe.train.device != config::DeviceChoice::kCpu) {  // these are in the device's memory
    memory.activations = memory.cross_entropy = memory.thread_buffers = 0;
  }
  return memory;
}

int64_t rows_of(const config::TrainSection& train) {
  return (train.batch + train.workers - 1) / train.workers;
}

// The workers of a process share sums, but each of its clusters has its own.
double sums_of(const config::Recipe& recipe, double of_one_worker, int64_t workers_here) {
  if (!recipe.sync.clustered()) return of_one_worker;
  const auto clusters = static_cast<double>(std::min(recipe.sync.clusters, workers_here));
  return of_one_worker + (clusters - 1) * within_sums(recipe, method::tensors_of(recipe));
}

double largest_bytes(std::span<const TensorSpec> tensors) {
  double largest = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    largest = std::max(largest, weight_bytes(tensors.subspan(i, 1), WeightFormat::kF32));
  }
  return largest;
}

// While a run reads the model that it starts from: its weights, one tensor in the model's file and,
// to be rounded, in fp32; and the whole model, where it is not read into the place of the weights.
double starting_bytes(const config::Recipe& recipe, double window) {
  if (recipe.train.init.empty()) return 0;
  const ModelSpec model(recipe);
  const AdaptedTensors own = adapted_tensors(model, recipe.adapter);
  const std::vector<TensorSpec> whole = tensors_of(model);
  const double weights = weight_bytes(own.trained, trained_format(recipe)) +
                         weight_bytes(own.frozen, recipe.train.weights);
  const bool in_place = !is_adapted(recipe.adapter) || freezes_whole_base(recipe);
  const double pieces = recipe.train.weights == WeightFormat::kF32 ? 1 : 2;
  return (recipe.train.offload ? window : weights) + pieces * largest_bytes(whole) +
         (in_place ? 0 : weight_bytes(whole, WeightFormat::kF32));
}

}  // namespace

std::vector<MemoryPart> memory_parts(const config::Recipe& recipe, int64_t workers_here) {
  const int64_t rows = rows_of(recipe.train);
  const StepMemory one = worker_memory(recipe, rows);
  const double batches = kBatchesRead * sizeof(int32_t) * static_cast<double>(rows) *
                         static_cast<double>(recipe.train.sequence + 1);
  std::vector<MemoryPart> parts = {
      {"weights", one.weights + one.frozen},      {"gradients", one.gradients},
      {kStatePart, one.consensus + one.local},    {"window of files", one.window},
      {"activations", one.activations},           {"logits", one.cross_entropy},
      {"buffers of threads", one.thread_buffers}, {"tokens", batches}};
  for (MemoryPart& part : parts) part.bytes *= static_cast<double>(workers_here);
  parts.front().bytes -= static_cast<double>(workers_here - 1) * shared_frozen_bytes(recipe);
  parts.push_back({"sums", sums_of(recipe, one.sums, workers_here)});
  parts.push_back({"code of the step", step_code_bytes(recipe)});
  const double steps = MemoryNeed{"", parts, ""}.total();
  const double start = starting_bytes(recipe, one.window);
  if (start > steps) parts.push_back({"start", start - steps});
  return parts;
}

namespace {

double total(const config::Recipe& recipe, int64_t workers_here) {
  return MemoryNeed{"", memory_parts(recipe, workers_here), ""}.total();
}

// A field, and the bytes that half of it would save.
struct Saving {
  std::string name;
  int64_t value;
  double bytes;
};

// Calls visit("table.field", integer) for each field that is one.
template <typename Visit>
void visit_integers(config::Recipe& recipe, const Visit& visit) {
  for (const auto& [table, section] : recipe.sections()) {
    config::Fields fields;
    section->describe(fields);
    for (const config::Field& field : fields.all()) {
      if (const auto* value = std::get_if<int64_t*>(&field.target)) {
        visit(config::key_of(table, field), **value);
      }
    }
  }
}

int64_t& integer_field(config::Recipe& recipe, std::string_view name) {
  int64_t* found = nullptr;
  visit_integers(recipe, [&](const std::string& field, int64_t& value) {
    if (field == name) found = &value;
  });
  return *found;
}

// The integers that the model's architecture alone has.
std::vector<std::string> own_integers(config::Recipe recipe) {
  std::vector<std::string> names;
  visit_integers(recipe, [&](const std::string& field, int64_t&) {
    if (field.starts_with(recipe.model.architecture + ".")) names.push_back(field);
  });
  return names;
}

// The fields whose halving saves most, ordered by the saving.
std::vector<Saving> savings(const config::Recipe& recipe, int64_t workers_here) {
  const double now = total(recipe, workers_here);
  std::vector<Saving> all;
  const auto halve = [&](const std::string& name) {
    config::Recipe other = recipe;
    int64_t& value = integer_field(other, name);
    const int64_t given = value;
    if (given < 2) return;
    value /= 2;
    all.push_back({name, given, now - total(other, workers_here)});
  };
  for (const char* name : {"model.hidden", "model.layers", "model.vocab"}) halve(name);
  for (const std::string& name : own_integers(recipe)) halve(name);
  for (const char* name : {"train.batch", "train.microbatch", "train.sequence", "train.threads"}) {
    halve(name);
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Saving::bytes);
  return all;
}

std::string advice(const config::Recipe& recipe, int64_t workers_here) {
  std::vector<std::string> names;
  const double least = kWorthNaming * total(recipe, workers_here);
  for (const Saving& saving : savings(recipe, workers_here)) {
    if (names.size() == kMaxNamed || saving.bytes < least) break;
    names.push_back(fmt::format("{} = {}", saving.name, saving.value));
  }
  if (workers_here > 1) names.push_back(fmt::format("train.workers = {}", recipe.train.workers));
  if (names.empty()) return {};
  return fmt::format("lower {}", fmt::join(names, " or "));
}

// The memory of the base that the factors are merged into, which then differs from the model's
// file.
double merged_base_bytes(const config::Recipe& recipe) {
  if (!facts_of(recipe.adapter).merges) return 0;
  return weight_bytes(adapted_tensors(ModelSpec(recipe), recipe.adapter).frozen,
                      WeightFormat::kF32);
}

}  // namespace

double checkpoint_bytes(const config::Recipe& recipe) {
  const std::vector<TensorSpec> tensors = tensors_of(recipe);
  const Method& method = find_method(recipe.sync.method);
  const StateBytes state = method.state(recipe, tensors);
  const auto workers = static_cast<double>(recipe.train.workers);
  const double weights = weight_bytes(tensors, trained_format(recipe));
  return merged_base_bytes(recipe) + (method.local_updates ? workers : 1) * weights +
         state.consensus + workers * state.local;
}

MemoryNeed run_memory(const config::Recipe& recipe, int64_t workers_here) {
  return {workers_here > 1 ? fmt::format("this run with {} workers", workers_here) : "this run",
          memory_parts(recipe, workers_here), advice(recipe, workers_here)};
}

}  // namespace thinwire::method

#include "thinwire/method/run_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/method/architectures.h"
#include "thinwire/method/memory.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

constexpr double kBatchesRead = 1 + kStepsReadAhead;  // the step's own and those read ahead
constexpr double kWorthNaming = 0.1;
constexpr size_t kMostNamed = 2;

StepMemory worker_memory(const config::Recipe& recipe, int64_t rows) {
  const auto tensors = method::tensors_of(recipe.model);
  const StateBytes state = find_method(recipe.sync.method).state(recipe, tensors);
  StepMemory memory = step_memory(recipe, tensors, state, rows);
  if (recipe.train.device != "cpu") {  // these are in the device's memory
    memory.activations = memory.cross_entropy = memory.thread_buffers = 0;
  }
  return memory;
}

int64_t rows_of(const config::TrainSection& train) {
  return (train.batch + train.workers - 1) / train.workers;
}

std::vector<MemoryPart> parts_of(const config::Recipe& recipe, int64_t workers_here) {
  const int64_t rows = rows_of(recipe.train);
  const StepMemory one = worker_memory(recipe, rows);
  const double batches = kBatchesRead * sizeof(int32_t) * static_cast<double>(rows) *
                         static_cast<double>(recipe.train.sequence + 1);
  std::vector<MemoryPart> parts = {{"weights", one.weights},
                                   {"gradients", one.gradients},
                                   {"optimizer and method", one.consensus + one.local},
                                   {"activations", one.activations},
                                   {"logits", one.cross_entropy},
                                   {"buffers of threads", one.thread_buffers},
                                   {"tokens", batches}};
  for (MemoryPart& part : parts) part.bytes *= static_cast<double>(workers_here);
  return parts;
}

double total(const config::Recipe& recipe, int64_t workers_here) {
  return MemoryNeed{"", parts_of(recipe, workers_here), ""}.total();
}

// A field, and the bytes that half of it would save.
struct Saving {
  std::string name;
  int64_t value;
  double bytes;
};

// The fields whose halving saves most, ordered by the saving.
std::vector<Saving> savings(const config::Recipe& recipe, int64_t workers_here) {
  const double now = total(recipe, workers_here);
  std::vector<Saving> all;
  const auto halve = [&](const char* name, auto section, auto field) {
    config::Recipe other = recipe;
    int64_t& value = other.*section.*field;
    if (value < 2) return;
    value /= 2;
    all.push_back({name, recipe.*section.*field, now - total(other, workers_here)});
  };
  using config::ModelSection;
  using config::Recipe;
  using config::TrainSection;
  halve("model.hidden", &Recipe::model, &ModelSection::hidden);
  halve("model.layers", &Recipe::model, &ModelSection::layers);
  halve("model.vocab", &Recipe::model, &ModelSection::vocab);
  halve("model.intermediate", &Recipe::model, &ModelSection::intermediate);
  halve("train.batch", &Recipe::train, &TrainSection::batch);
  halve("train.microbatch", &Recipe::train, &TrainSection::microbatch);
  halve("train.sequence", &Recipe::train, &TrainSection::sequence);
  halve("train.threads", &Recipe::train, &TrainSection::threads);
  std::ranges::stable_sort(all, std::ranges::greater(), &Saving::bytes);
  return all;
}

std::string advice(const config::Recipe& recipe, int64_t workers_here) {
  std::vector<std::string> names;
  const double least = kWorthNaming * total(recipe, workers_here);
  for (const Saving& saving : savings(recipe, workers_here)) {
    if (names.size() == kMostNamed || saving.bytes < least) break;
    names.push_back(fmt::format("{} = {}", saving.name, saving.value));
  }
  if (workers_here > 1) names.push_back(fmt::format("train.workers = {}", recipe.train.workers));
  if (names.empty()) return {};
  return fmt::format("lower {}", fmt::join(names, " or "));
}

}  // namespace

MemoryNeed run_memory(const config::Recipe& recipe, int64_t workers_here) {
  return {workers_here > 1 ? fmt::format("this run with {} workers", workers_here) : "this run",
          parts_of(recipe, workers_here), advice(recipe, workers_here)};
}

}  // namespace thinwire::method

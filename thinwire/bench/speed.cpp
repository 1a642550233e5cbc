#include "thinwire/bench/speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/method.h"
#include "thinwire/model/registry.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/train/gradients.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/round_source.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::bench {
namespace {

// Any of them may be a target, so an encoder's are classes.
std::vector<int32_t> random_tokens(const config::Recipe& recipe, int64_t count) {
  const auto bound = static_cast<uint64_t>(
      method::find_architecture(recipe.model.architecture).outputs(method::ModelSpec(recipe)));
  Rng rng(derive_seed(static_cast<uint64_t>(recipe.run.seed), "speed"), 0);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(rng.below(bound));
  }
  return tokens;
}

std::vector<int32_t> read_tokens(const fs::path& path, int64_t batch) {
  const MappedFile file(path);
  const size_t bytes = file.bytes().size();
  const size_t batch_bytes = static_cast<size_t>(batch) * sizeof(int32_t);
  if (bytes == 0 || bytes % batch_bytes != 0) {
    throw Error(fmt::format("{} has {} bytes; a batch of {} tokens takes {}", path.string(), bytes,
                            batch, batch_bytes));
  }
  std::vector<int32_t> tokens(bytes / sizeof(int32_t));
  std::memcpy(tokens.data(), file.bytes().data(), bytes);
  return tokens;
}

int64_t prepared_vocabulary_size(const std::string& folder) {
  if (const auto vocabulary = data::Vocabulary::find_in(folder)) return vocabulary->size();
  throw UsageError(
      fmt::format("[model] vocab must be set, or the data prepared: there is no vocabulary in "
                  "[data] dir = \"{}\"",
                  folder));
}

// The parts of a step of `tokens` tokens with our own backend. Recomputation because of
// model.recompute takes time, but is not counted as work.
std::vector<TimedPart> timed_parts(const config::Recipe& recipe, Precision precision,
                                   int64_t tokens, int64_t params, const model::PassTimes& times,
                                   double update_seconds) {
  const auto n = static_cast<double>(tokens), p = static_cast<double>(params);
  const bool half = precision == Precision::kBf16;
  const method::TokenWork work =
      method::find_architecture(recipe.model.architecture)
          .work(method::ModelSpec(recipe),
                {.rows = 1, .sequence = recipe.train.sequence, .operand_bytes = half ? 2.0 : 4.0});
  // The embedding's gradient is cleared unless it is shared with the head.
  const double cleared = recipe.model.tied ? 0
                                           : 4 * static_cast<double>(recipe.model.hidden) *
                                                 static_cast<double>(recipe.model.vocab);
  // The norm reads the gradient; the optimizer reads it again, reads and writes parameters and
  // state, and writes the copy.
  const std::vector<TensorSpec> tensors = method::tensors_of(recipe);
  const bool stored_bf16 = method::trained_format(recipe) == WeightFormat::kBf16;
  const double update = (stored_bf16 ? 12 : 16) * p +
                        (half && !stored_bf16 ? method::copy_bytes(recipe, tensors) : 0) +
                        2 * method::optimizer_bytes(recipe, tensors);
  const double products = times.all - times.attention - times.between - times.head;
  return {{"block products", products, n * work.products, 0},
          {"attention", times.attention, n * work.attention, 0},
          {"norms, SwiGLU", times.between, 0, n * work.elementwise_bytes + cleared},
          {"head, loss", times.head, n * work.head, 0},
          {"update", update_seconds, 0, update}};
}

// The mean over the steps of what was added since `before`.
model::PassTimes per_step(const model::PassTimes& before, const model::PassTimes& after,
                          int64_t steps) {
  const auto each = [&](double model::PassTimes::*part) {
    return (after.*part - before.*part) / static_cast<double>(steps);
  };
  return {each(&model::PassTimes::all), each(&model::PassTimes::attention),
          each(&model::PassTimes::between), each(&model::PassTimes::head)};
}

// Rows to train on: those given, or random ones.
std::vector<int32_t> tokens_for(const config::Recipe& recipe, const SpeedOptions& options,
                                int64_t batch) {
  return options.tokens.empty() ? random_tokens(recipe, batch) : read_tokens(options.tokens, batch);
}

void warn_of_memory(const config::Recipe& recipe, const events::MessageSink& message) {
  const std::string warning = check_memory(method::run_memory(recipe, 1));
  if (!warning.empty()) message(warning);
}

// What is known before the first step of one worker, once its parameters are loaded.
SpeedResult before_steps(const config::Recipe& recipe, Precision precision,
                         std::span<const TensorSpec> tensors) {
  SpeedResult result;
  result.precision = precision;
  result.params = method::parameter_count(tensors);
  result.tokens_per_step = recipe.train.batch * recipe.train.sequence;
  result.flops_per_token = method::train_flops_per_token(recipe);
  result.loaded_bytes = resident_memory_bytes();
  return result;
}

// The parts of the mean step, whose passes took `times`, `updating` seconds of updates included.
std::vector<TimedPart> mean_parts(const config::Recipe& recipe, const SpeedResult& result,
                                  model::PassTimes times, double updating) {
  times.all -= updating;
  const double whole = std::accumulate(result.seconds.begin(), result.seconds.end(), 0.0) /
                       static_cast<double>(result.seconds.size());
  return timed_parts(recipe, result.precision, result.tokens_per_step, result.params, times,
                     whole - times.all);
}

double parts_named(std::span<const MemoryPart> parts,
                   std::initializer_list<std::string_view> names) {
  double sum = 0;
  for (const MemoryPart& part : parts) {
    if (std::ranges::find(names, part.name) != names.end()) sum += part.bytes;
  }
  return sum;
}

// The memory of an arena, if it is not in files.
double bytes_in_memory(const tensor::Arena& arena) {
  return arena.offload() ? 0 : static_cast<double>(arena.bytes().size());
}

// The memory of the copies of weights that the model's products read: those it registered, and that
// of frozen weights, which it does not.
double held_copies(const config::Recipe& recipe, const tensor::Arena& params,
                   const tensor::Arena* frozen) {
  double copy = 0;
  for (size_t tensor = 0; tensor < params.layout().size(); ++tensor) {
    if (params.rounded_tensor(tensor) == nullptr) continue;
    copy += static_cast<double>(sizeof(Bf16)) *
            static_cast<double>(params.layout().specs()[tensor].count());
  }
  const bool copied = recipe.train.precision == Precision::kBf16 && frozen != nullptr &&
                      frozen->format() == WeightFormat::kF32;
  return copied ? copy + method::copy_bytes(recipe, frozen->layout().specs()) : copy;
}

// What a worker holds after its steps. Copies of weights are the model's.
std::vector<HeldPart> held_parts(const config::Recipe& recipe,
                                 std::span<const MemoryPart> predicted,
                                 const train::StartingWeights& weights,
                                 const train::StepGradients& gradients, const model::Model& model,
                                 sync::Strategy& strategy) {
  const tensor::Arena& params = *weights.trained;
  const tensor::Arena* const frozen = weights.frozen ? &weights.frozen->values : nullptr;
  const std::span<const uint8_t> own = std::as_const(params).bytes();
  const double copies = held_copies(recipe, params, frozen);
  const double in_arenas =
      bytes_in_memory(params) + (frozen == nullptr ? 0 : bytes_in_memory(*frozen));
  const auto in_files =
      params.offload() ? static_cast<double>(params.offload()->traffic().resident) : 0;
  const tensor::Arena* const shared = strategy.shared();
  double state = shared == nullptr || shared->offload() ? 0 : static_cast<double>(own.size());
  for (const StateTensor& part : strategy.state()) {
    // The worker's own weights are those of the model.
    if (part.bytes.data() != own.data() && !is_offloaded(part.bytes.data()))
      state += static_cast<double>(part.bytes.size());
  }
  return {
      {"weights", parts_named(predicted, {"weights"}), in_arenas + copies},
      {"window of files", parts_named(predicted, {"window of files"}), in_files},
      {"gradients", parts_named(predicted, {"gradients"}), static_cast<double>(gradients.bytes())},
      {"optimizer and method", parts_named(predicted, {"optimizer and method"}), state},
      {"passes", parts_named(predicted, {"activations", "logits", "buffers of threads"}),
       static_cast<double>(model.activation_bytes()) - copies}};
}

// Makes the recipe one for a single worker with `rows` rows per step.
void reduce_to_one_worker(config::Recipe& recipe, int64_t rows, const SpeedOptions& options) {
  recipe.train.workers = 1;
  recipe.sync.clusters = std::min<int64_t>(recipe.sync.clusters, 1);
  recipe.train.batch = rows;
  recipe.train.steps = options.warmup + options.steps;
}

struct TimedSteps {
  model::PassTimes before;  // when they began
  double updating = 0;      // seconds of updates during backward passes
};

// Runs all steps; losses and seconds go into `result`.
TimedSteps run_steps(const config::Recipe& recipe, const SpeedOptions& options,
                     std::span<const int32_t> tokens, int64_t rows_per_pass,
                     train::StepGradients& gradients, model::Model& model, sync::Strategy& strategy,
                     SpeedResult& result) {
  const auto round_at = [&](uint64_t step) {
    return train::open_round(recipe, 0, 1, static_cast<int64_t>(step));
  };
  strategy.restored({.round_at = round_at});
  const auto batch = static_cast<size_t>(recipe.train.batch * (recipe.train.sequence + 1));
  const size_t batches = tokens.size() / batch;
  TimedSteps timed;
  for (int64_t step = 0; step < recipe.train.steps; ++step) {
    if (options.progress) options.progress(step, recipe.train.steps);
    if (step == options.warmup) timed.before = model.times();
    const Stopwatch watch;
    const Round round = round_at(static_cast<uint64_t>(step));
    if (strategy.before_step(round)) model.refresh();
    const auto rows = tokens.subspan(static_cast<size_t>(step) % batches * batch, batch);
    const double loss =
        gradients.compute({rows, recipe.train.sequence, rows_per_pass}, model, strategy, round);
    const auto report = strategy.after_step(round);
    if (!report) throw Error(fmt::format("step {}: {}", step + 1, report.error().message));
    model.refresh();
    result.losses.push_back(loss / static_cast<double>(result.tokens_per_step));
    if (step < options.warmup) continue;
    result.seconds.push_back(watch.seconds());
    timed.updating += report->backward_update_seconds;
  }
  return timed;
}

}  // namespace

double TimedPart::limit_seconds(const MachineSpeed& machine, Precision precision) const {
  const bool half = precision == Precision::kBf16;
  return std::max(flops / (half ? machine.gemm_bf16 : machine.gemm_fp32), bytes / machine.copy);
}

double SpeedResult::median_seconds() const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

double SpeedResult::tokens_per_second() const {
  return static_cast<double>(tokens_per_step) / median_seconds();
}

SpeedResult measure_speed(config::Recipe recipe, const SpeedOptions& options) {
  if (recipe.train.offload_dir.empty()) recipe.train.offload_dir = ".";  // there is no run.dir
  if (recipe.model.vocab == 0) recipe.model.vocab = prepared_vocabulary_size(recipe.data.dir);
  const config::TrainSection& train = recipe.train;
  const model::Placement placement = model::placement_of(train.device);
  const Precision precision = model::precision_on(placement, train.precision);
  const int64_t rows = (train.batch + train.workers - 1) / train.workers;
  const int64_t rows_per_pass = train.microbatch == 0 ? rows : std::min(train.microbatch, rows);
  const auto program_bytes = resident_memory_bytes();
  warn_of_memory(recipe, options.message);
  reduce_to_one_worker(recipe, rows, options);
  const std::vector<int32_t> tokens = tokens_for(recipe, options, rows * (train.sequence + 1));

  const auto specs = method::tensors_of(recipe);
  const tensor::Layout layout(specs);
  const train::StartingWeights weights =
      train::starting_weights(recipe, nullptr, layout, options.message);
  tensor::Arena& params = *weights.trained;
  SpeedResult result = before_steps(recipe, precision, specs);
  result.program_bytes = program_bytes;

  train::StepGradients gradients(recipe, params);
  ThreadPool threads(static_cast<int>(train.threads));
  PermitHold permits(nullptr, threads.size());
  const auto communicators = transport::make_local_communicators(1);
  const auto model = model::make_model(
      {method::ModelSpec(recipe), precision, layout, params, threads, rows_per_pass, train.sequence,
       placement, weights.frozen ? &weights.frozen->values : nullptr, recipe.adapter});
  const auto strategy = sync::make_strategy({params, gradients.arena(), threads, permits,
                                             *communicators.front(), method::sync_spec(recipe)});
  sync::share_params(params, *strategy);
  const TimedSteps timed =
      run_steps(recipe, options, tokens, rows_per_pass, gradients, *model, *strategy, result);
  if (!placement) {
    result.parts = mean_parts(recipe, result, per_step(timed.before, model->times(), options.steps),
                              timed.updating / static_cast<double>(options.steps));
    const std::vector<MemoryPart> predicted = method::memory_parts(recipe, 1);
    result.memory = held_parts(recipe, predicted, weights, gradients, *model, *strategy);
    result.predicted_bytes =
        MemoryNeed{"", predicted, ""}.total() + static_cast<double>(program_bytes);
  }
  result.peak_bytes = peak_memory_bytes();
  return result;
}

}  // namespace thinwire::bench

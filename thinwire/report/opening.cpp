#include "thinwire/report/opening.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "thinwire/base/memory.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/base/units.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/method/memory/run_memory.h"

namespace thinwire::report {
namespace {

std::string what_trains(const config::Recipe& recipe) {
  const auto count = [](std::span<const TensorSpec> tensors) {
    return format_count(static_cast<double>(method::parameter_count(tensors)));
  };
  const auto adapted = method::adapted_tensors(method::ModelSpec(recipe), recipe.adapter);
  return fmt::format(
      "{}: {}, {} x {}, {} on {}, {} parameters{}", recipe.run.name, recipe.sync.method,
      counted(recipe.train.workers, "worker"), counted(recipe.train.threads, "thread"),
      recipe.train.precision, recipe.train.device, count(adapted.trained),
      adapted.frozen.empty()
          ? ""
          : fmt::format(" ({}) and {} frozen", recipe.adapter.kind, count(adapted.frozen)));
}

std::string what_is_read(const config::Recipe& recipe, uint64_t corpus_tokens) {
  const auto a_step = static_cast<double>(recipe.train.batch * recipe.train.sequence);
  const double all = a_step * static_cast<double>(recipe.train.steps);
  const auto corpus = static_cast<double>(corpus_tokens);
  return fmt::format("  tokens: {} a step, {} in {}, {:.3g} epochs of {}", format_count(a_step),
                     format_count(all), counted(recipe.train.steps, "step"), all / corpus,
                     format_count(corpus));
}

std::string what_is_kept(const config::CheckpointSection& checkpoint) {
  std::vector<std::string> times;
  if (checkpoint.every > 0) times.push_back(counted(checkpoint.every, "step"));
  if (checkpoint.minutes > 0) times.push_back(fmt::format("{:g} min", checkpoint.minutes));
  if (checkpoint.best) times.emplace_back("evaluation");
  return fmt::format("  checkpoints: {}at the end; {}{} kept",
                     times.empty() ? "" : fmt::format("every {}, ", fmt::join(times, ", ")),
                     checkpoint.keep, checkpoint.best ? " and best" : "");
}

std::string what_is_needed(const config::Recipe& recipe, int64_t workers_here) {
  const double need = method::run_memory(recipe, workers_here).total();
  const double free = machine_memory().available;
  return fmt::format("  memory: about {} needed{}", format_bytes(need),
                     free > 0 ? fmt::format(", {} free", format_bytes(free)) : "");
}

}  // namespace

std::vector<std::string> opening_lines(const config::Recipe& recipe, uint64_t corpus_tokens,
                                       int64_t workers_here) {
  return {what_trains(recipe), what_is_read(recipe, corpus_tokens),
          what_is_needed(recipe, workers_here), what_is_kept(recipe.checkpoint),
          fmt::format("  data: {}, run: {}", recipe.data.dir, recipe.run.dir)};
}

}  // namespace thinwire::report

#include "thinwire/report/opening.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/memory.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/units.h"
#include "thinwire/links/links.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"

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
      name_of(recipe.train.precision), name_of(recipe.train.device), count(adapted.trained),
      adapted.frozen.empty() ? ""
                             : fmt::format(" ({}) and {} frozen", name_of(recipe.adapter.kind),
                                           count(adapted.frozen)));
}

std::string what_is_read(const config::Recipe& recipe, const TrainingRows& training) {
  if (training.rows == 0) {
    return fmt::format("  rows: {} a step, {} in {}", recipe.train.batch,
                       recipe.train.batch * recipe.train.steps,
                       counted(recipe.train.steps, "step"));
  }
  const auto tokens = static_cast<double>(training.tokens);
  const double a_row = tokens / static_cast<double>(training.rows);
  const double a_step = a_row * static_cast<double>(recipe.train.batch);
  const double all = a_step * static_cast<double>(recipe.train.steps);
  const bool padded =
      training.tokens < training.rows * static_cast<uint64_t>(recipe.train.sequence);
  return fmt::format("  tokens{}: {} a step, {} in {}, {:.3g} epochs of {}",
                     padded ? " without padding" : "", format_count(a_step), format_count(all),
                     counted(recipe.train.steps, "step"), all / tokens, format_count(tokens));
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
  return fmt::format("  memory: about {} needed{}; on disk {} a checkpoint", format_bytes(need),
                     free > 0 ? fmt::format(", {} free", format_bytes(free)) : "",
                     format_bytes(method::checkpoint_bytes(recipe)));
}

}  // namespace

std::vector<std::string> opening_lines(const config::Recipe& recipe, const TrainingRows& training,
                                       int64_t workers_here) {
  return {what_trains(recipe), what_is_read(recipe, training), what_is_needed(recipe, workers_here),
          what_is_kept(recipe.checkpoint),
          training.rows == 0 ? fmt::format("  run: {}", recipe.run.dir)
                             : fmt::format("  data: {}, run: {}", recipe.data.dir, recipe.run.dir)};
}

namespace {

// From the simulation if there is one; the real time if bytes were really slowed down; else as if
// workers waited for every byte.
void time_over_links(const config::Recipe& recipe, std::span<const TensorSpec> specs,
                     events::Summary& summary) {
  const auto workers = static_cast<int>(recipe.train.workers);
  const std::vector<links::Member> members = links::members_of(recipe.links, workers);
  const bool simulated =
      std::ranges::any_of(members, [](const links::Member& member) { return member.step_s > 0; });
  if (simulated) return;
  summary.seconds_over_links = summary.seconds;
  if (workers == 1 || recipe.links.paced) return;
  const double round_trips =
      method::find_method(recipe.sync.method).traffic(recipe, specs, workers).round_trips;
  double slowest = 0;
  for (const links::Member& member : members) {
    slowest = std::max(
        slowest, links::transfer_seconds(member.link, summary.bytes_sent_per_worker_step,
                                         summary.bytes_received_per_worker_step, round_trips));
  }
  summary.seconds_over_links += static_cast<double>(summary.steps) * slowest;
}

}  // namespace

events::Summary summarise(const config::Recipe& recipe, const Recorder& recorder, uint64_t digest) {
  const auto specs = method::tensors_of(recipe);
  const auto workers = static_cast<int>(recipe.train.workers);
  events::Summary summary = recorder.totals().summary();
  summary.params = method::parameter_count(specs);
  summary.params_non_embedding = method::non_embedding_count(specs);
  summary.digest = to_hex(digest);
  summary.peak_memory_bytes = static_cast<int64_t>(peak_memory_bytes());
  const double sent = summary.bytes_sent_per_worker_step;
  const double received = summary.bytes_received_per_worker_step;
  const double ring = method::ring_bytes(summary.params, workers);
  if (sent > 0) summary.ratio_report = 2.0 * static_cast<double>(summary.params) / sent;
  if (sent > 0) summary.ratio_ring_sent = ring / sent;
  if (received > 0) summary.ratio_ring = ring / received;
  summary.link_down_bit_s = recipe.links.down_bit_s;
  summary.link_up_bit_s = recipe.links.up_bit_s;
  time_over_links(recipe, specs, summary);
  return summary;
}

}  // namespace thinwire::report

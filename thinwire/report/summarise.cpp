#include "thinwire/report/summarise.h"

#include <algorithm>
#include <span>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/threads.h"
#include "thinwire/links/links.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/registry.h"

namespace thinwire::report {
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

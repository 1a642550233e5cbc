#include "thinwire/method/outer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/method/distro.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

// A field that means something only where another has a certain value.
void require(std::string_view table, bool holds, std::string_view message) {
  if (!holds) throw UsageError(fmt::format("[{}] {}", table, message));
}

// Elements of each fragment's buffer: its tensors, each filled up as in the arena.
std::vector<int64_t> fragment_elements(std::span<const TensorSpec> tensors,
                                       int64_t fragment_layers) {
  const std::vector<int64_t> fragments = fragments_of(tensors, fragment_layers);
  std::vector<int64_t> elements(
      static_cast<size_t>(*std::max_element(fragments.begin(), fragments.end()) + 1));
  for (size_t t = 0; t < tensors.size(); ++t) {
    elements[static_cast<size_t>(fragments[t])] += arena_elements(tensors.subspan(t, 1));
  }
  return elements;
}

void check_overlap(std::string_view table, const OuterOptions& options, int64_t fragments) {
  const OuterOptions defaults;
  const bool inner = options.overlap == "inner";
  require(table, inner || options.overlap_steps == defaults.overlap_steps,
          fmt::format("overlap_steps = {} needs overlap = \"inner\", got \"{}\"",
                      options.overlap_steps, options.overlap));
  require(table, inner || options.mix == defaults.mix,
          fmt::format("mix = {} needs overlap = \"inner\", got \"{}\": only there sums arrive at "
                      "weights that have moved on",
                      options.mix, options.overlap));
  require(table, options.eager() || options.depth == defaults.depth,
          fmt::format("depth = {} needs overlap = \"eager\", got \"{}\"", options.depth,
                      options.overlap));
  require(table, !inner || options.overlap_steps * fragments < options.sync_every,
          fmt::format("overlap_steps must be < sync_every / fragments = {} / {}, got {}: what was "
                      "sent arrives before the next fragment is sent",
                      options.sync_every, fragments, options.overlap_steps));
}

void check_outer_step(std::string_view table, const OuterOptions& options) {
  const OuterOptions defaults;
  require(
      table,
      options.outer != "average" || options.outer_lr == defaults.outer_lr || options.outer_lr == 1,
      fmt::format("outer_lr = {} contradicts outer = \"average\", whose rate is 1; outer = "
                  "\"sgd\" takes any",
                  options.outer_lr));
  require(table,
          options.has_momentum() || options.outer_momentum == defaults.outer_momentum ||
              options.outer_momentum == 0,
          fmt::format("outer_momentum = {} needs outer = \"nesterov\" or \"momentum\", got \"{}\"",
                      options.outer_momentum, options.outer));
}

// Steps that a fragment's sum may travel before somebody waits for it.
double travel_steps(const OuterOptions& options) {
  if (options.overlap == "none") return 0;
  if (options.overlap == "inner") return static_cast<double>(options.overlap_steps);
  return static_cast<double>(options.sync_every * (options.eager() ? options.depth : 1));
}

}  // namespace

void OuterOptions::describe(config::Fields& fields) {
  fields.integer("sync_every", sync_every, "steps", 1, 1'000'000'000,
                 "Steps that a worker trains on its own before it sends how far it came; all send "
                 "at the end of the run, too.");
  if (fragment_layers > 0) {
    fields.integer("fragment_layers", fragment_layers, "layers", 1, 10'000,
                   "Layers of a fragment; fragments are sent one after another, evenly spread over "
                   "sync_every steps.");
  }
  fields.choice("outer", outer, {"nesterov", "momentum", "sgd", "average"},
                "Optimizer that steps along the workers' mean difference; average takes the mean "
                "of their weights.");
  fields.number_above("outer_lr", outer_lr, "", 0, 100,
                      "Learning rate of the outer step; it follows no schedule.");
  fields.number("outer_momentum", outer_momentum, "", 0, 0.999'999'999,
                "Decay of the outer momentum, an outer step.");
  fields.choice("wire", wire, {"fp32", "bf16", "fp8", "fp4", "int2"},
                "Number format in which differences and their sums travel; sums are formed in "
                "fp32.");
  fields.flag("error_feedback", error_feedback,
              "Keep what the number format loses of a difference, and send it with the next.");
  fields.choice("overlap", overlap, {"none", "inner", "delayed", "eager"},
                "What workers do while sums travel: wait; take overlap_steps steps; take all steps "
                "up to the next outer one, from weights one outer step late; or the same with the "
                "own difference applied at once.");
  fields.integer("overlap_steps", overlap_steps, "steps", 0, 1'000'000'000,
                 "With overlap = inner: steps after which what was sent is applied.");
  fields.number("mix", mix, "", 0, 1,
                "With overlap = inner: share of the worker's own weights when the new shared ones "
                "arrive; 0 takes these as they are.");
  fields.integer("depth", depth, "outer steps", 1, 2,
                 "With overlap = eager: outer steps that sums may travel.");
}

int64_t OuterOptions::behind() const {
  if (overlap == "none") return 0;
  if (overlap == "inner") return overlap_steps > 0 ? 1 : 0;
  return eager() ? depth : 1;
}

int64_t OuterOptions::buffers() const {
  const int64_t travelling = behind();
  // Where sums are late by outer steps, one is sent before an older one is waited for.
  return overlap == "delayed" || eager() ? travelling + 1 : travelling;
}

int64_t fragment_count(int64_t layers, int64_t fragment_layers) {
  if (fragment_layers == 0) return 1;
  return std::max<int64_t>(1, (layers + fragment_layers - 1) / fragment_layers);
}

std::vector<int64_t> fragments_of(std::span<const TensorSpec> tensors, int64_t fragment_layers) {
  int64_t layers = 0;
  for (const TensorSpec& tensor : tensors) layers = std::max<int64_t>(layers, tensor.layer + 1);
  const int64_t count = fragment_count(layers, fragment_layers);
  std::vector<int64_t> fragments;
  fragments.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors) {
    if (tensor.layer >= 0) {
      fragments.push_back(tensor.layer % count);
    } else {
      fragments.push_back(tensor.role == TensorRole::kEmbedding ? 0 : count - 1);
    }
  }
  return fragments;
}

schedule::FragmentSchedule fragment_schedule(const OuterOptions& options,
                                             const config::Recipe& recipe, int64_t fragments) {
  return {recipe.train.steps, options.sync_every, fragments};
}

void check_outer(std::string_view table, const OuterOptions& options,
                 const config::Recipe& recipe) {
  check_within(recipe);
  check_outer_step(table, options);
  check_overlap(table, options, fragment_count(recipe.model.layers, options.fragment_layers));
  require(
      table, !options.error_feedback || options.wire != "fp32",
      "error_feedback = true needs wire bf16, fp8, fp4 or int2: fp32 has no error to feed back");
}

void check_within(const config::Recipe& recipe) {
  if (recipe.sync.within != "distro") return;
  kDistro.check(recipe);
  const auto& distro = recipe.section<DistroOptions>("distro");
  require(
      "sync", distro.local_steps == 1,
      fmt::format("within = \"distro\" needs [distro] local_steps = 1, got {}: the workers of a "
                  "cluster train the same weights at every step",
                  distro.local_steps));
}

Traffic within_traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                       int members) {
  Traffic mean{.round_trips = 0};
  if (recipe.sync.within == "none") return mean;
  const Method& within = find_method(recipe.sync.within);
  const Clusters clusters = clusters_of(recipe.sync, members);
  for (int cluster = 0; cluster < clusters.count; ++cluster) {
    const int size = clusters.size(cluster);
    const Traffic one = within.traffic(recipe, tensors, size);
    mean.sent_bytes += one.sent_bytes * size / members;
    mean.received_bytes += one.received_bytes * size / members;
    mean.round_trips = std::max(mean.round_trips, one.round_trips);
    mean.exact = mean.exact && one.exact;
  }
  return mean;
}

Traffic add_spread(const Traffic& of_round, const config::Recipe& recipe, double elements,
                   int members) {
  const Clusters clusters = clusters_of(recipe.sync, members);
  int sharing = 0;
  for (int cluster = 0; cluster < clusters.count; ++cluster) sharing += clusters.size(cluster) > 1;
  Traffic traffic = of_round;
  const double bytes = sizeof(float) * elements;
  traffic.sent_bytes += bytes * sharing / members;
  traffic.received_bytes += bytes * (members - clusters.count) / members;
  traffic.round_trips += sharing > 0 ? 1 : 0;
  return traffic;
}

Traffic add_speeds(const Traffic& mean, const config::Recipe& recipe, int64_t sync_every,
                   int members) {
  Traffic traffic = mean;
  if (recipe.sync.shares != "speed" || members == 1) return traffic;
  // After every round but for the last two, which nobody could be divided by.
  const int64_t offers = std::max<int64_t>((recipe.train.steps - 1) / sync_every - 1, 0);
  const double bytes =
      sizeof(float) * static_cast<double>(offers) / static_cast<double>(recipe.train.steps);
  traffic.sent_bytes += bytes;
  traffic.received_bytes += bytes * (members - 1);
  return traffic;
}

double within_state(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  if (recipe.sync.within == "none") return optimizer_bytes(recipe, tensors);
  const StateBytes state = find_method(recipe.sync.within).state(recipe, tensors);
  return state.consensus + state.local;
}

// Every send is a sum over the clusters (base/wire.h).
Traffic outer_traffic(const OuterOptions& options, const config::Recipe& recipe,
                      std::span<const TensorSpec> tensors, int members) {
  const std::vector<int64_t> elements = fragment_elements(tensors, options.fragment_layers);
  const auto fragments = static_cast<int64_t>(elements.size());
  const schedule::FragmentSchedule schedule = fragment_schedule(options, recipe, fragments);
  const int clusters = clusters_of(recipe.sync, members).count;
  Traffic run{.round_trips = 0};
  std::vector<Piece> pieces;
  for (int64_t fragment = 0; fragment < fragments; ++fragment) {
    const auto values = static_cast<uint64_t>(elements[static_cast<size_t>(fragment)]);
    const auto bytes = static_cast<double>(wire_bytes(options.wire_type(), values));
    Traffic send;
    send.sent_bytes = send.received_bytes = 2 * bytes * (clusters - 1) / members;
    send.round_trips = clusters > 1 ? 2 : 0;
    const double leaders = 2 * bytes * (clusters - 1) / clusters;
    pieces.push_back(
        {leaders, leaders, send.round_trips, sizeof(float) * static_cast<double>(values)});
    send = add_spread(send, recipe, static_cast<double>(values), members);
    const auto times = static_cast<double>(schedule.sent(fragment, schedule.steps));
    run.sent_bytes += times * send.sent_bytes;
    run.received_bytes += times * send.received_bytes;
    run.round_trips += times * send.round_trips;
  }
  const auto steps = static_cast<double>(schedule.steps);
  Traffic traffic = within_traffic(recipe, tensors, members);
  traffic.sent_bytes += run.sent_bytes / steps;
  traffic.received_bytes += run.received_bytes / steps;
  traffic.round_trips += run.round_trips / steps;
  traffic.overlap_steps = travel_steps(options);
  traffic.pieces = std::move(pieces);
  return add_speeds(traffic, recipe, options.sync_every, members);
}

StateBytes outer_state(const OuterOptions& options, const config::Recipe& recipe,
                       std::span<const TensorSpec> tensors) {
  const double arena = sizeof(float) * static_cast<double>(arena_elements(tensors));
  const int consensus = options.has_momentum() ? 2 : 1;  // shared weights, v
  int corrections = 0;                                   // e, u
  if (options.eager()) corrections = options.has_momentum() ? 2 : 1;
  const auto local =
      static_cast<double>(options.buffers() + corrections) + (options.error_feedback ? 1.0 : 0.0);
  return {consensus * arena, local * arena + within_state(recipe, tensors)};
}

}  // namespace thinwire::method

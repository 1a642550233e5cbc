#include "thinwire/methods/sparseloco/sparseloco_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/payload_format.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/method.h"
#include "thinwire/method/within.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::method {
namespace {

constexpr int kValueBits = value_bits(ValueFormat::kTwoBit);
constexpr int64_t kSecondScaleBytes = 2;
constexpr int64_t kMaxSlots = 65'536;  // of a chunk; slots fit 16 bits

std::unique_ptr<config::Section> options() { return std::make_unique<SparseLocoOptions>(); }

const SparseLocoOptions& options_of(const config::Recipe& recipe) {
  return recipe.section<SparseLocoOptions>("sparseloco");
}

void check(const config::Recipe& recipe) {
  const SparseLocoOptions& options = options_of(recipe);
  check_diloco("sparseloco", options.outer_options(), recipe);
  if (options.k > options.chunk) {
    throw UsageError(
        fmt::format("[sparseloco] k must be <= chunk = {}, got {}", options.chunk, options.k));
  }
  options.sums.check("sparseloco", options.k, recipe);
}

uint64_t payload_bound(const SparseLocoOptions& options, std::span<const TensorSpec> tensors) {
  const TilePlan plan = plan_chunks(tensors, options).plan;
  return static_cast<uint64_t>(distro_payload_bound(plan, kValueBits) +
                               kSecondScaleBytes * static_cast<int64_t>(plan.tensors.size()));
}

// The sum of a round's payloads; 0: there is none.
double sum_bound(const SparseLocoOptions& options, std::span<const TensorSpec> tensors,
                 int clusters) {
  if (!options.sums.formed()) return 0;
  return static_cast<double>(sparse_sum_bound(
      plan_chunks(tensors, options).plan, plan_chunks(tensors, options.of_sum()).plan,
      static_cast<uint64_t>(clusters), options.sums.values()));
}

// A payload is sent once and received by all other clusters' first workers.
Traffic traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors, int members) {
  const SparseLocoOptions& options = options_of(recipe);
  const auto payload = static_cast<double>(payload_bound(options, tensors));
  const Clusters clusters = clusters_of(recipe.sync, members);
  Traffic across;
  if (clusters.count > 1) {
    across.sent_bytes = payload * clusters.count / members;
    across.received_bytes = across.sent_bytes * (clusters.count - 1);
  } else {
    across.round_trips = 0;
  }
  const auto elements = static_cast<double>(arena_elements(tensors));
  const Piece piece{clusters.count > 1 ? payload : 0, payload * (clusters.count - 1),
                    across.round_trips, sizeof(float) * elements};
  across = add_broadcast(across, recipe, elements, members);
  across = per_step(across, {recipe.train.steps, options.sync_every});
  Traffic traffic = within_traffic(recipe, tensors, members);
  traffic.sent_bytes += across.sent_bytes;
  traffic.received_bytes += across.received_bytes;
  traffic.round_trips += across.round_trips;
  traffic.exact = false;
  traffic.pieces = {piece};
  const schedule::Rounds rounds{recipe.train.steps, options.sync_every};
  traffic.gathered_sum = {payload, sum_bound(options, tensors, clusters.count),
                          static_cast<double>(rounds.count()) / static_cast<double>(rounds.steps)};
  return with_speeds(traffic, recipe, members);
}

// In addition to the outer step's state: what was not sent.
StateBytes state(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  StateBytes bytes = diloco_state(options_of(recipe).outer_options(), recipe, tensors);
  bytes.local += sizeof(float) * static_cast<double>(arena_elements(tensors));
  bytes.sums = within_sums(recipe, tensors);  // what goes across is not summed by the transport
  return bytes;
}

OperationsAfter operations(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                           RunKind /*kind*/) {
  const SparseLocoOptions& options = options_of(recipe);
  const schedule::FragmentSchedule schedule{recipe.train.steps, options.sync_every, 1};
  const auto values = static_cast<uint64_t>(arena_elements(tensors));
  Operation exchange{.group = across(recipe.sync), .bytes = payload_bound(options, tensors)};
  return [schedule, values, exchange,
          clustered = recipe.sync.clustered()](int64_t step) mutable -> std::vector<Operation> {
    if (!schedule.sends(0, step + 1)) return {};
    exchange.round = static_cast<uint64_t>(step);
    exchange.due = step + 1;
    if (!clustered) return {exchange};
    return {exchange, broadcast_of(exchange, values)};
  };
}

int64_t sync_every(const config::Recipe& recipe) { return options_of(recipe).sync_every; }

}  // namespace

void SparseLocoOptions::describe(config::Fields& fields) {
  fields.integer("sync_every", sync_every, "steps", 1, 1'000'000'000,
                 "Steps that a worker trains on its own before it sends part of its "
                 "pseudo-gradient; all workers also send at the end of the run.");
  fields.integer("chunk", chunk, "values", 1, kMaxSlots,
                 "Number of consecutive values of a tensor from which the largest are sent.");
  fields.integer("k", k, "values", 1, kMaxSlots,
                 "Values sent of each full chunk; shorter chunks send their share.");
  fields.number("decay", decay, "", 0, 1, "Decay of what was not sent, per outer step.");
  fields.choice("aggregate", aggregate,
                "Whether what the workers sent of a value is averaged over those that sent it or "
                "over all.");
  sums.describe(fields, "values");
  fields.choice("outer", outer,
                {OuterOptimizer::kSgd, OuterOptimizer::kNesterov, OuterOptimizer::kMomentum},
                "Optimizer that steps along the workers' mean pseudo-gradient.");
  fields.number_above("outer_lr", outer_lr, "", 0, 100,
                      "Learning rate of the outer step; it follows no schedule.");
  fields.number("outer_momentum", outer_momentum, "", 0, 0.999'999'999,
                "Decay of the outer momentum, per outer step.");
}

SparseLocoOptions SparseLocoOptions::of_sum() const {
  SparseLocoOptions options = *this;
  options.k = sums.kept(chunk);
  return options;
}

DilocoOptions SparseLocoOptions::outer_options() const {
  DilocoOptions options;
  options.sync_every = sync_every;
  options.outer = outer;
  options.outer_lr = outer_lr;
  options.outer_momentum = outer_momentum;
  options.wire = WireType::kF32;
  return options;
}

ChunkPlan plan_chunks(std::span<const TensorSpec> tensors, const SparseLocoOptions& options) {
  ChunkPlan chunks;
  TilePlan& plan = chunks.plan;
  const auto add = [&](int64_t count, int64_t slots) {
    if (count == 0 || slots == 0) return;
    const int64_t share = (2 * options.k * slots + options.chunk) / (2 * options.chunk);
    TensorTiles tiles;
    tiles.rows = tiles.tile_rows = 1;
    tiles.columns = count * slots;
    tiles.tile_columns = static_cast<int>(slots);
    tiles.kept = static_cast<int>(std::clamp<int64_t>(share, 1, slots));
    tiles.first_tile = plan.tiles;
    tiles.first_kept = plan.kept;
    plan.tiles += count;
    plan.kept += count * tiles.kept;
    plan.tensors.push_back(tiles);
  };
  for (const TensorSpec& tensor : tensors) {
    chunks.parts.push_back(plan.tensors.size());
    add(tensor.count() / options.chunk, options.chunk);
    add(1, tensor.count() % options.chunk);
  }
  chunks.parts.push_back(plan.tensors.size());
  return chunks;
}

const Method kSparseLoco = {
    .name = "sparseloco",
    .sentence =
        "Trains the workers independently and sends the largest values of their pseudo-gradients, "
        "in two bits each.",
    .options = options,
    .check = check,
    .traffic = traffic,
    .state = state,
    .sync_every = sync_every,
    .local_updates = true,
    .sums_late = true,
    .operations = operations,
};

const std::span<const Method> kSparseLocoMethods(&kSparseLoco, 1);

}  // namespace thinwire::method

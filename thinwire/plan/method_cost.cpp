#include "thinwire/plan/method_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/method.h"
#include "thinwire/method/registry.h"
#include "thinwire/method/within.h"
#include "thinwire/plan/run_time.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::plan {
namespace {

constexpr double kBitsPerByte = 8;
constexpr double kSecondsPerHour = 3600;
// The share of a line that carries payloads on many hosts; headers of Ethernet, IP, TCP, TLS and
// NATS take the rest (bench/results/2026-11-23-links.md).
constexpr double kPayloadShare = 0.95;
constexpr int64_t kByteVocabulary = 258;  // bytes, end and beginning of a document

// What a candidate needs of lines and memory, whether it can run or is only simulated.
struct Demand {
  double sent_bytes = 0;  // by a member, per step
  double received_bytes = 0;
  bool exact = true;
  RunSchedule schedule;
  method::StateBytes state;
};

// On hosts of their own members sum gradients that are kept in one piece (method/gradient_sums.h).
method::ExchangeParts parts_of(const method::Method& method, const config::Recipe& recipe,
                               const PlannedModel& model, bool hosts) {
  if (method.parts == nullptr) return {};
  method::ExchangeParts parts = method.parts(recipe, model.tensors);
  if (hosts && !parts.in_turn) return {};
  return parts;
}

// Adds what the members of each cluster send each other every step.
void add_inside(RunSchedule& schedule, const config::Recipe& recipe, const PlannedModel& model) {
  if (!recipe.sync.clustered()) return;
  const method::Method& within = method::find_method(name_of(recipe.sync.within));
  for (int cluster = 0; cluster < schedule.clusters.count; ++cluster) {
    const method::Traffic traffic =
        within.traffic(recipe, model.tensors, schedule.clusters.size(cluster));
    schedule.inside.push_back({traffic.sent_bytes, traffic.received_bytes, traffic.round_trips});
    schedule.inside_overlap = std::llround(traffic.overlap_steps);
  }
  schedule.inside_parts = parts_of(within, recipe, model, false);
}

Demand demand_of(const config::Recipe& recipe, const PlannedModel& model, int64_t members,
                 bool hosts) {
  const method::Method& method = method::find_method(recipe.sync.method);
  method::Traffic traffic = method.traffic(recipe, model.tensors, static_cast<int>(members));
  if (hosts) {
    traffic =
        method::hosted_traffic(std::move(traffic), recipe.sync.sums, static_cast<int>(members));
  }
  Demand demand{traffic.sent_bytes,
                traffic.received_bytes,
                traffic.exact,
                {},
                method.state(recipe, model.tensors)};
  RunSchedule& schedule = demand.schedule;
  schedule.steps = recipe.train.steps;
  schedule.every = method.sync_every(recipe);
  schedule.overlap_steps = std::llround(traffic.overlap_steps);
  schedule.overlap_after = traffic.overlap_after;
  schedule.pieces = traffic.pieces;
  schedule.parts = parts_of(method, recipe, model, hosts);
  if (schedule.pieces.empty()) {
    const schedule::Rounds rounds{schedule.steps, schedule.every};
    const double steps = static_cast<double>(rounds.steps) / static_cast<double>(rounds.count());
    schedule.pieces = {
        {traffic.sent_bytes * steps, traffic.received_bytes * steps, traffic.round_trips * steps}};
  }
  schedule.clusters = method::clusters_of(recipe.sync, static_cast<int>(members));
  schedule.relay = recipe.train.launcher != config::Launcher::kMpi;
  schedule.stored = hosts;
  add_inside(schedule, recipe, model);
  return demand;
}

// A paper's schedule: parameters cross the line once in each direction. In addition to AdamW's
// moments it keeps the global parameters and their momentum if members train their own weights.
Demand demand_of(const SyncSchedule& simulated, const PlannedModel& model, double layers,
                 int64_t members) {
  const double arena = sizeof(float) * static_cast<double>(method::arena_elements(model.tensors));
  const double payload = members > 1 ? model.parameters * simulated.bits / kBitsPerByte : 0;
  const double pieces =
      simulated.fragment_layers > 0 ? std::ceil(layers / simulated.fragment_layers) : 1;
  Demand demand;
  demand.sent_bytes = demand.received_bytes = payload / simulated.sync_every;
  demand.schedule.pieces.assign(static_cast<size_t>(pieces),
                                {payload / pieces, payload / pieces, members > 1 ? 1 / pieces : 0});
  demand.schedule.every = simulated.sync_every;
  demand.schedule.overlap_steps = simulated.overlap_steps;
  demand.schedule.clusters = {static_cast<int>(members), static_cast<int>(members)};
  demand.state.consensus = 2 * arena;
  if (simulated.sync_every > 1) demand.state.local = 2 * arena;
  return demand;
}

// The largest number of rows of a member, by group: those of a step, in even shares, or in shares
// by speed once speeds are known.
std::vector<int64_t> rows_of(const config::Recipe& recipe, std::span<const Member> members) {
  const auto count = static_cast<size_t>(member_count(members));
  std::vector<float> speeds(count);
  auto speed = speeds.begin();
  for (const Member& member : members) {
    const bool counts = recipe.sync.shares == config::RowShares::kSpeed;
    speed = std::fill_n(speed, member.count, counts ? static_cast<float>(member.flops) : 0.0F);
  }
  const std::vector<uint64_t> shares = schedule::share_rows(
      static_cast<uint64_t>(recipe.train.batch), std::vector<uint8_t>(count, 1), speeds);
  std::vector<int64_t> rows;
  auto share = shares.begin();
  for (const Member& member : members) {
    const auto end = share + member.count;
    rows.push_back(static_cast<int64_t>(*std::max_element(share, end)));
    share = end;
  }
  return rows;
}

// Seconds of a step's computation, by group of members.
std::vector<double> compute_seconds(std::span<const Member> members, std::span<const int64_t> rows,
                                    double flops_per_row) {
  std::vector<double> seconds;
  for (size_t i = 0; i < members.size(); ++i) {
    seconds.push_back(static_cast<double>(rows[i]) * flops_per_row / members[i].flops);
  }
  return seconds;
}

double mean_of_members(std::span<const Member> members, std::span<const double> values) {
  double sum = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    sum += static_cast<double>(members[i].count) * values[i];
  }
  return sum / static_cast<double>(member_count(members));
}

// The line on which the largest piece takes longest.
LineTime slowest_piece(std::span<const Member> members, const RunSchedule& schedule) {
  std::vector<Member> taking_part(members.begin(), members.end());
  const method::Clusters& clusters = schedule.clusters;
  if (clusters.count < clusters.members) {
    int64_t first = 0;
    for (Member& member : taking_part) {
      const int64_t end = first + member.count;
      member.count = 0;
      for (int cluster = 0; cluster < clusters.count; ++cluster) {
        const int leader = clusters.first(cluster);
        member.count += leader >= first && leader < end ? 1 : 0;
      }
      first = end;
    }
  }
  LineTime slowest;
  for (const method::Piece& piece : schedule.pieces) {
    const LineTime line = slowest_line(
        taking_part, {piece.sent_bytes, piece.received_bytes, piece.round_trips, schedule.stored});
    if (line.seconds > slowest.seconds) slowest = line;
  }
  return slowest;
}

double peak_bit_s(const RunSchedule& schedule, double compute) {
  double bytes = 0;
  for (const method::Piece& piece : schedule.pieces) {
    bytes = std::max({bytes, piece.sent_bytes, piece.received_bytes});
  }
  const bool overlaps = schedule.overlap_after == 0;  // always
  const double hidden = overlaps ? std::max(1.0, static_cast<double>(schedule.overlap_steps)) : 1.0;
  return kBitsPerByte * bytes / (hidden * compute);
}

double simulated_step(const SyncSchedule& schedule, const PlannedModel& model, int layers,
                      double compute, double line) {
  if (line == 0) return compute;
  const SimulatedModel simulated{"", model.parameters, layers, compute};
  const double bit_s = model.parameters * schedule.bits / line;
  return compute / utilization(simulated, schedule, bit_s);
}

std::string bottleneck(const MethodCost& cost, std::span<const Member> members, size_t slowest,
                       const LineTime& line) {
  const double waiting = cost.step_seconds - cost.compute_seconds;
  if (waiting <= cost.compute_seconds || line.seconds == 0) {
    return fmt::format("{} computes", members[slowest].name);
  }
  const Member& member = members[line.member];
  const std::string place = member.site.empty() ? member.name : "site " + member.site;
  return fmt::format("{}'s line {}", place, line.up ? "up" : "down");
}

// The first group whose members lack the memory for their rows; empty: none.
std::string first_too_small(const config::Recipe& recipe, const PlannedModel& model,
                            const method::StateBytes& state, std::span<const Member> members,
                            std::span<const int64_t> rows, double program) {
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].memory_bytes == 0) continue;
    method::StepMemory memory = method::step_memory(recipe, model.tensors, state, rows[i]);
    memory.program = program;
    if (members[i].memory_bytes < memory.total()) return members[i].name;
  }
  return {};
}

// Halves the rows of a pass until the step fits or one row is left. `rows`: of a member, by group.
void fit_memory(MethodCost& cost, config::Recipe recipe, const PlannedModel& model,
                const method::StateBytes& state, std::span<const Member> members,
                std::span<const int64_t> rows) {
  const double program = cost.memory.program;
  const int64_t most = *std::ranges::max_element(rows);
  int64_t& microbatch = recipe.train.microbatch;
  for (;;) {
    cost.microbatch = microbatch;
    cost.memory = method::step_memory(recipe, model.tensors, state, most);
    cost.memory.program = program;
    cost.too_small = first_too_small(recipe, model, state, members, rows, program);
    const int64_t now = microbatch == 0 ? most : std::min(microbatch, most);
    const bool one_pass = recipe.train.update == config::UpdateTime::kLayer;
    if (cost.too_small.empty() || now == 1 || one_pass) return;
    microbatch = (now + 1) / 2;
  }
}

void add_price(MethodCost& cost, std::span<const Member> members) {
  const double hours = cost.seconds / kSecondsPerHour;
  for (const Member& member : members) {
    const auto count = static_cast<double>(member.count);
    cost.kilowatt_hours += count * member.watts * hours / 1000;
    cost.price += count * member.price_per_hour * hours;
  }
}

void keep_payload_share(std::vector<Member>& members) {
  for (Member& member : members) {
    member.link.up_bit_s *= kPayloadShare;
    member.link.down_bit_s *= kPayloadShare;
  }
}

}  // namespace

PlannedModel planned_model(config::Recipe& recipe) {
  if (recipe.model.vocab == 0) {
    recipe.model.vocab = recipe.data.vocabulary == config::VocabularyKind::kByte
                             ? kByteVocabulary
                             : recipe.data.vocabulary_size;
  }
  PlannedModel model;
  model.tensors = method::tensors_of(recipe);
  model.parameters = static_cast<double>(method::parameter_count(model.tensors));
  model.non_embedding = static_cast<double>(method::non_embedding_count(model.tensors));
  model.flops_per_token = method::train_flops_per_token(recipe);
  return model;
}

std::string MethodCost::name() const {
  return setting.empty() ? method : fmt::format("{} with {}", method, setting);
}

MethodCost method_cost(Candidate candidate, std::span<const Member> members,
                       std::span<const MethodLaw> own_laws, double program_bytes) {
  config::Recipe& recipe = candidate.recipe;
  std::vector<Member> machines(members.begin(), members.end());
  if (candidate.hosts) keep_payload_share(machines);
  const PlannedModel model = planned_model(recipe);
  const int64_t count = member_count(machines);
  if (count > recipe.train.batch) {
    throw UsageError(
        fmt::format("[train] batch must be >= the {} members, got {}", count, recipe.train.batch));
  }
  const auto& schedule = candidate.simulated;
  const Demand demand =
      schedule ? demand_of(*schedule, model, static_cast<double>(recipe.model.layers), count)
               : demand_of(recipe, model, count, candidate.hosts);
  const std::vector<int64_t> rows = rows_of(recipe, machines);
  const double flops_per_row = static_cast<double>(recipe.train.sequence) * model.flops_per_token;
  const std::vector<double> compute = compute_seconds(machines, rows, flops_per_row);
  const auto slowest = std::ranges::max_element(compute);
  const LineTime line = slowest_piece(machines, demand.schedule);

  MethodCost cost;
  cost.method = candidate.method;
  cost.setting = candidate.setting;
  cost.runs = !schedule;
  cost.sync_every = std::min(demand.schedule.every, recipe.train.steps);
  cost.sent_bytes = demand.sent_bytes;
  cost.received_bytes = demand.received_bytes;
  cost.exact = demand.exact;
  cost.compute_seconds = *slowest;
  cost.line_seconds = line.seconds;
  cost.peak_bit_s = peak_bit_s(demand.schedule, *slowest);
  const auto steps = static_cast<double>(recipe.train.steps);
  const auto pieces = static_cast<double>(demand.schedule.pieces.size());
  cost.seconds =
      schedule ? steps * simulated_step(*schedule, model, static_cast<int>(recipe.model.layers),
                                        *slowest, line.seconds * pieces)
               : run_seconds(demand.schedule, machines, compute);
  cost.step_seconds = cost.seconds / steps;
  cost.utilization = mean_of_members(machines, compute) / cost.step_seconds;
  add_price(cost, machines);
  cost.memory.program = program_bytes + method::step_code_bytes(recipe);
  fit_memory(cost, recipe, model, demand.state, machines, rows);
  const double tokens = steps * static_cast<double>(recipe.train.batch * recipe.train.sequence);
  cost.loss =
      expected_loss(candidate, cost.sync_every,
                    {model.tensors, model.parameters, model.non_embedding, tokens}, own_laws);
  cost.bottleneck =
      bottleneck(cost, machines, static_cast<size_t>(slowest - compute.begin()), line);
  return cost;
}

}  // namespace thinwire::plan

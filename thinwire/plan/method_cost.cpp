#include "thinwire/plan/method_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/config/model_shapes.h"
#include "thinwire/method/registry.h"

namespace thinwire::plan {
namespace {

constexpr double kBitsPerByte = 8;
constexpr double kSecondsPerHour = 3600;
constexpr int64_t kByteVocabulary = 258;  // bytes, end and beginning of a document
constexpr double kSameTime = 1.01;

// What a candidate asks of lines and memory, whoever runs or simulates it.
struct Demand {
  Exchange exchange;
  double pieces = 1;   // that travel one after another, evenly spread over the steps
  double every = 1;    // steps between exchanges
  double overlap = 0;  // steps that a piece may travel
  bool exact = true;
  method::StateBytes state;
};

Demand demand_of(const config::Recipe& recipe, const PlannedModel& model, int64_t members) {
  const method::Method& method = method::find_method(recipe.sync.method);
  const method::Traffic traffic = method.traffic(recipe, model.tensors, static_cast<int>(members));
  const auto every = static_cast<double>(std::min(method.sync_every(recipe), recipe.train.steps));
  return {{traffic.sent_bytes * every, traffic.received_bytes * every, traffic.turns * every},
          traffic.exchanges,
          every,
          traffic.overlap_steps,
          traffic.exact,
          method.state(recipe, model.tensors)};
}

// A schedule's parameters cross the line once in each direction. Beside AdamW's moments it keeps
// the global parameters and their momentum where members go local ways.
Demand demand_of(const SyncSchedule& schedule, const PlannedModel& model, double layers,
                 int64_t members) {
  const double arena = sizeof(float) * static_cast<double>(method::arena_elements(model.tensors));
  const double payload = members > 1 ? model.parameters * schedule.bits / kBitsPerByte : 0;
  Demand demand;
  demand.exchange = {payload, payload, members > 1 ? 1.0 : 0.0};
  if (schedule.fragment_layers > 0) {
    demand.pieces = std::ceil(layers / schedule.fragment_layers);
  }
  demand.every = schedule.sync_every;
  demand.overlap = schedule.overlap_steps;
  demand.state.consensus = 2 * arena;
  if (schedule.sync_every > 1) demand.state.local = 2 * arena;
  return demand;
}

struct Slowest {
  double seconds = 0;
  size_t member = 0;
};

// The most rows of a member: the trainer splits a batch evenly.
int64_t rows_of(const config::Recipe& recipe, int64_t members) {
  return (recipe.train.batch + members - 1) / members;
}

Slowest slowest_compute(std::span<const Member> members, double tokens, double flops_per_token) {
  Slowest slowest;
  for (size_t i = 0; i < members.size(); ++i) {
    const double seconds = tokens * flops_per_token / members[i].flops;
    if (seconds > slowest.seconds) slowest = {seconds, i};
  }
  return slowest;
}

double simulated_step(const SyncSchedule& schedule, const PlannedModel& model, int layers,
                      double compute, double line) {
  if (line == 0) return compute;
  const SimulatedModel simulated{"", model.parameters, layers, compute};
  const double bit_s = model.parameters * schedule.bits / line;
  return compute / utilization(simulated, schedule, bit_s);
}

std::string bottleneck(const MethodCost& cost, std::span<const Member> members,
                       const Slowest& compute, const LineTime& line) {
  const double waiting = cost.step_seconds - cost.compute_seconds;
  if (waiting <= cost.compute_seconds) {
    return fmt::format("{} computes", members[compute.member].name);
  }
  const Member& member = members[line.member];
  const std::string place = member.site.empty() ? member.name : "site " + member.site;
  return fmt::format("{}'s line {}", place, line.up ? "up" : "down");
}

std::string first_too_small(std::span<const Member> members, double bytes) {
  for (const Member& member : members) {
    if (member.memory_bytes > 0 && member.memory_bytes < bytes) return member.name;
  }
  return {};
}

// Halves the rows of a pass until the step fits or one row is left.
void fit_memory(MethodCost& cost, config::Recipe recipe, const PlannedModel& model,
                const method::StateBytes& state, std::span<const Member> members) {
  const double program = cost.memory.program;
  const int64_t rows = rows_of(recipe, member_count(members));
  int64_t& microbatch = recipe.train.microbatch;
  for (;;) {
    cost.microbatch = microbatch;
    cost.memory = step_memory(recipe, model.tensors, state, rows);
    cost.memory.program = program;
    cost.too_small = first_too_small(members, cost.memory.total());
    const int64_t now = microbatch == 0 ? rows : std::min(microbatch, rows);
    if (cost.too_small.empty() || now == 1) return;
    microbatch = (now + 1) / 2;
  }
}

void add_bill(MethodCost& cost, std::span<const Member> members) {
  const double hours = cost.seconds / kSecondsPerHour;
  for (const Member& member : members) {
    const auto count = static_cast<double>(member.count);
    cost.kilowatt_hours += count * member.watts * hours / 1000;
    cost.price += count * member.price_per_hour * hours;
  }
}

std::string name_of(const MethodCost& cost) {
  return cost.setting.empty() ? cost.method : fmt::format("{} with {}", cost.method, cost.setting);
}

bool fits(const MethodCost& cost) { return cost.runs && cost.too_small.empty(); }

std::string reason_for(std::span<const MethodCost> costs, const MethodCost& best, double least) {
  std::string reason = fmt::format("{}: {} for the run, {:.3g} % of it computing", name_of(best),
                                   format_seconds(best.seconds), 100 * best.utilization);
  const MethodCost* other = nullptr;
  for (const MethodCost& cost : costs) {
    if (!fits(cost) || cost.method == best.method) continue;
    if (other == nullptr || cost.seconds < other->seconds) other = &cost;
  }
  if (other != nullptr) {
    reason += fmt::format("; {} takes {:.3g} times as long", name_of(*other),
                          other->seconds / best.seconds);
  }
  return reason + fmt::format("; expected loss {:.3f} ({}), {:.3f} above the lowest here",
                              best.loss.nats, best.loss.basis, best.loss.nats - least);
}

}  // namespace

PlannedModel planned_model(config::Recipe& recipe) {
  if (recipe.model.vocab == 0) {
    recipe.model.vocab =
        recipe.data.vocabulary == "byte" ? kByteVocabulary : recipe.data.vocabulary_size;
  }
  PlannedModel model;
  model.tensors = config::llama_tensors(recipe.model);
  model.parameters = static_cast<double>(config::parameter_count(model.tensors));
  model.non_embedding = static_cast<double>(config::non_embedding_count(model.tensors));
  model.flops_per_token = config::train_flops_per_token(recipe.model, recipe.train.sequence);
  return model;
}

double step_seconds(double compute, double line, double every, double overlap) {
  const double computing = every * compute;
  const double round = std::max(computing + std::max(0.0, line - overlap * compute), line);
  return round / every;
}

MethodCost method_cost(Candidate candidate, std::span<const Member> members,
                       std::span<const MethodLaw> own_laws, double program_bytes) {
  config::Recipe& recipe = candidate.recipe;
  const PlannedModel model = planned_model(recipe);
  const int64_t count = member_count(members);
  if (count > recipe.train.batch) {
    throw UsageError(
        fmt::format("[train] batch must be >= the {} members, got {}", count, recipe.train.batch));
  }
  const auto& schedule = candidate.simulated;
  const Demand demand =
      schedule ? demand_of(*schedule, model, static_cast<double>(recipe.model.layers), count)
               : demand_of(recipe, model, count);
  const Slowest compute =
      slowest_compute(members, static_cast<double>(rows_of(recipe, count) * recipe.train.sequence),
                      model.flops_per_token);
  const Exchange piece = {demand.exchange.sent_bytes / demand.pieces,
                          demand.exchange.received_bytes / demand.pieces,
                          demand.exchange.turns / demand.pieces};
  const LineTime line = slowest_line(members, piece);

  MethodCost cost;
  cost.method = candidate.method;
  cost.setting = candidate.setting;
  cost.runs = !schedule;
  cost.sync_every = static_cast<int64_t>(demand.every);
  cost.sent_bytes = demand.exchange.sent_bytes / demand.every;
  cost.received_bytes = demand.exchange.received_bytes / demand.every;
  cost.exact = demand.exact;
  cost.compute_seconds = compute.seconds;
  cost.line_seconds = line.seconds;
  cost.peak_bit_s = kBitsPerByte * std::max(piece.sent_bytes, piece.received_bytes) /
                    (std::max(1.0, demand.overlap) * compute.seconds);
  cost.step_seconds = schedule
                          ? simulated_step(*schedule, model, static_cast<int>(recipe.model.layers),
                                           compute.seconds, line.seconds * demand.pieces)
                          : step_seconds(compute.seconds, line.seconds,
                                         demand.every / demand.pieces, demand.overlap);
  cost.utilization = compute.seconds / cost.step_seconds;
  cost.seconds = cost.step_seconds * static_cast<double>(recipe.train.steps);
  add_bill(cost, members);
  cost.memory.program = program_bytes;
  fit_memory(cost, recipe, model, demand.state, members);
  cost.loss = expected_loss(own_laws, schedule && demand.every == 1 ? "allreduce" : cost.method,
                            demand.every, model.non_embedding);
  cost.bottleneck = bottleneck(cost, members, compute, line);
  return cost;
}

std::optional<Recommendation> recommend(std::span<const MethodCost> costs, double tolerance) {
  double least = std::numeric_limits<double>::infinity();
  for (const MethodCost& cost : costs) {
    if (fits(cost)) least = std::min(least, cost.loss.nats);
  }
  const MethodCost* best = nullptr;
  for (const MethodCost& cost : costs) {
    if (!fits(cost) || cost.loss.nats > least + tolerance) continue;
    const bool sooner = best == nullptr || cost.seconds * kSameTime < best->seconds;
    const bool thinner = best != nullptr && cost.seconds < best->seconds * kSameTime &&
                         cost.received_bytes < best->received_bytes;
    if (sooner || thinner) best = &cost;
  }
  if (best == nullptr) return std::nullopt;
  return Recommendation{static_cast<size_t>(best - costs.data()), reason_for(costs, *best, least)};
}

}  // namespace thinwire::plan

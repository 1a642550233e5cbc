#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "thinwire/base/units.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/config/check.h"
#include "thinwire/events/plot.h"
#include "thinwire/hosts/store_need.h"
#include "thinwire/methods/distro/coverage_plan.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kFastestShown = 5;

// A line, or several of which all but the first are indented.
void print_line(std::string_view text, std::string_view indent = "") {
  const std::string more = std::string(indent) + "  ";
  fmt::print("{}", config::wrapped(text, indent, more, kColumns));
}

nlohmann::ordered_json memory_json(const method::StepMemory& memory) {
  return {{"weights", memory.weights},
          {"frozen", memory.frozen},
          {"gradients", memory.gradients},
          {"consensus_state", memory.consensus},
          {"local_state", memory.local},
          {"sums", memory.sums},
          {"activations", memory.activations},
          {"cross_entropy", memory.cross_entropy},
          {"thread_buffers", memory.thread_buffers},
          {"program", memory.program}};
}

nlohmann::ordered_json number_json(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json gap_json(const std::optional<plan::ExpectedGap>& gap) {
  if (!gap) return nullptr;
  return {{"nats", gap->nats}, {"low", gap->range.low}, {"high", gap->range.high}};
}

nlohmann::ordered_json cost_json(const plan::MethodCost& cost) {
  return {{"method", cost.method},
          {"setting", cost.setting},
          {"runs", cost.runs},
          {"sync_every", cost.sync_every},
          {"bytes_sent_per_step", cost.sent_bytes},
          {"bytes_received_per_step", cost.received_bytes},
          {"bytes_exact", cost.exact},
          {"peak_bit_s", cost.peak_bit_s},
          {"compute_seconds", cost.compute_seconds},
          {"exchange_seconds", cost.line_seconds},
          {"step_seconds", cost.step_seconds},
          {"utilization", cost.utilization},
          {"seconds", cost.seconds},
          {"kilowatt_hours", cost.kilowatt_hours},
          {"price", cost.price},
          {"microbatch", cost.microbatch},
          {"memory_bytes", cost.memory.total()},
          {"memory", memory_json(cost.memory)},
          {"fits", cost.too_small.empty()},
          {"loss", number_json(cost.loss.nats)},
          {"loss_basis", cost.loss.basis},
          {"coverage", cost.loss.coverage},
          {"gap", gap_json(cost.loss.gap)},
          {"bottleneck", cost.bottleneck}};
}

nlohmann::ordered_json member_json(const plan::Member& member) {
  return {{"name", member.name},
          {"site", member.site},
          {"count", member.count},
          {"flops", member.flops},
          {"memory_bytes", member.memory_bytes},
          {"up_bit_s", member.link.up_bit_s},
          {"down_bit_s", member.link.down_bit_s},
          {"delay_s", member.link.delay_s},
          {"watts", member.watts},
          {"price_per_hour", member.price_per_hour}};
}

std::string label(const plan::MethodCost& cost) {
  return cost.runs ? cost.name() : "(" + cost.name() + ")";
}

std::string loss_cell(const plan::MethodCost& cost) {
  return cost.loss.nats ? report::number_cell(*cost.loss.nats, 3) : "unknown";
}

report::Table table_of(const plan::MethodPlan& plan) {
  bool energy = false;
  bool money = false;
  for (const plan::Member& member : plan.members) {
    energy |= member.watts > 0;
    money |= member.price_per_hour > 0;
  }
  report::Table table{{{"method", true},
                       {"sent\na step"},
                       {"received\na step"},
                       {"peak"},
                       {"time\na step"},
                       {"compute\nutilisation"},
                       {"time to\nfinish"}},
                      {}};
  if (energy) table.columns.push_back({"energy"});
  if (money) table.columns.push_back({"price"});
  table.columns.insert(table.columns.end(),
                       {{"memory\na member"}, {"expected\nloss"}, {"bottleneck", true}});
  for (const plan::MethodCost& cost : plan.costs) {
    auto& row = table.rows.emplace_back(std::vector<std::string>{
        label(cost), format_bytes(cost.sent_bytes), format_bytes(cost.received_bytes),
        format_rate(cost.peak_bit_s), format_seconds(cost.step_seconds),
        report::number_cell(cost.utilization, 3), format_seconds(cost.seconds)});
    if (energy) row.push_back(fmt::format("{:.4g} kWh", cost.kilowatt_hours));
    if (money) row.push_back(report::number_cell(cost.price, 2));
    row.push_back(format_bytes(cost.memory.total()) + (cost.too_small.empty() ? "" : " !"));
    row.push_back(loss_cell(cost));
    row.push_back(cost.bottleneck);
  }
  return table;
}

// The first to finish of those that can run and fit, those with a known loss before others, and the
// recommended one, which is marked.
report::Table fastest_of(const plan::MethodPlan& plan) {
  const plan::MethodCost* const best =
      plan.recommended ? &plan.costs[plan.recommended->index] : nullptr;
  std::vector<const plan::MethodCost*> costs;
  for (const plan::MethodCost& cost : plan.costs) {
    if (cost.runs && cost.too_small.empty()) costs.push_back(&cost);
  }
  std::ranges::stable_sort(costs, {}, [](const plan::MethodCost* cost) {
    return std::pair(!cost->loss.nats.has_value(), cost->seconds);
  });
  const auto place = std::ranges::find(costs, best) - costs.begin();
  if (costs.size() > kFastestShown) {
    if (best != nullptr && std::cmp_greater_equal(place, kFastestShown)) {
      costs[kFastestShown - 1] = best;
    }
    costs.resize(kFastestShown);
  }
  report::Table table{{{"fastest", true},
                       {"received\na step"},
                       {"time to\nfinish"},
                       {"memory\na member"},
                       {"expected\nloss"}},
                      {}};
  for (const plan::MethodCost* cost : costs) {
    table.rows.push_back({(cost == best ? "* " : "  ") + cost->name(),
                          format_bytes(cost->received_bytes), format_seconds(cost->seconds),
                          format_bytes(cost->memory.total()), loss_cell(*cost)});
  }
  return table;
}

// How often DisTrO's candidates cover the weights, and how far behind they are expected to end.
void print_coverage(const plan::MethodPlan& plan) {
  report::Table table{{{"DisTrO", true},
                       {"coverage"},
                       {"behind\nall-reduce"},
                       {"95 % of runs,\nor why it is unknown", true}},
                      {}};
  const plan::CoverageLaw* law = nullptr;  // all candidates have the recipe's update
  for (const plan::MethodCost& cost : plan.costs) {
    if (cost.loss.coverage == 0) continue;
    law = cost.loss.law;
    const auto& gap = cost.loss.gap;
    table.rows.push_back(
        {label(cost), fmt::format("{:.3g}", cost.loss.coverage),
         gap ? report::number_cell(gap->nats, 3) : "unknown",
         gap ? fmt::format("{:.3f} to {:.3f}", gap->range.low, gap->range.high) : cost.loss.basis});
  }
  if (table.rows.empty()) return;
  fmt::print("\n{}\n", table.terminal());
  fmt::print("Coverage: how often a worker can send each coefficient in the run.\n");
  if (law == nullptr) return;
  print_line(fmt::format("Above {0:.0f} it counts as {0:.0f}.", law->most()));
  print_line(fmt::format("From {}.", law->runs()));
  print_line(
      "All-reduce there is AdamW with beta1 = 0.9 and beta2 = 0.95; a larger beta2 can end lower "
      "(2026-11-26-distro-tuned-adamw.md).");
}

// The methods without variations, and the recommended one: more curves could not be distinguished.
std::vector<size_t> drawn_costs(const plan::MethodPlan& plan) {
  std::vector<size_t> drawn;
  for (size_t i = 0; i < plan.costs.size(); ++i) {
    const bool recommended = plan.recommended && plan.recommended->index == i;
    if (recommended || (plan.costs[i].runs && plan.costs[i].setting.empty())) drawn.push_back(i);
  }
  return drawn;
}

// Who had better not take part, and what that gains.
std::string idle_sentence(const plan::MethodPlan& plan) {
  std::vector<std::string> names;
  for (const plan::Member& member : plan.idle) {
    names.push_back(member.count == 1 ? member.name
                                      : fmt::format("{} ({})", member.name, member.count));
  }
  const int64_t all = plan::member_count(plan.members) + plan::member_count(plan.idle);
  const std::string with_them =
      plan.seconds_with_all
          ? fmt::format("all {} members would take {}", all, format_seconds(*plan.seconds_with_all))
          : fmt::format("no method that fits all {} members is expected to end as low", all);
  return fmt::format("without {}: {}", fmt::join(names, ", "), with_them);
}

// The recipe may leave the vocabulary to the data; the plan assumes one.
hosts::StoreNeed store_of(config::Recipe recipe) {
  (void)plan::planned_model(recipe);
  return hosts::store_need(recipe);
}

// What all members together send and receive in the run, and how fast that crosses the line of a
// server through which all of it goes: it receives what they send and sends what they receive.
struct RunTraffic {
  double sent_bytes = 0;
  double received_bytes = 0;
  double server_down_bit_s = 0;  // mean over the run
  double server_up_bit_s = 0;
};

RunTraffic traffic_of(const plan::MethodPlan& plan, const plan::MethodCost& cost) {
  constexpr double kBitsPerByte = 8;
  const auto members = static_cast<double>(plan::member_count(plan.members));
  const double times = members * static_cast<double>(plan.recipe.train.steps);
  RunTraffic traffic{.sent_bytes = times * cost.sent_bytes,
                     .received_bytes = times * cost.received_bytes};
  traffic.server_down_bit_s = kBitsPerByte * traffic.sent_bytes / cost.seconds;
  traffic.server_up_bit_s = kBitsPerByte * traffic.received_bytes / cost.seconds;
  return traffic;
}

void print_recommendation(const plan::MethodPlan& plan) {
  if (!plan.recommended) {
    print_line("No method that can run fits into every member's memory with a loss that is known.");
    return;
  }
  const std::vector<std::string> lines = lines_of_recommendation(plan);
  print_line("Recommended: " + lines.front());
  for (size_t i = 1; i < lines.size(); ++i) print_line(lines[i], "  ");
  const plan::Candidate& best = plan.candidates.all[plan.recommended->index];
  if (!best.hosts) return;
  print_line(
      fmt::format("with it, {} (docs/operations.md)", hosts::describe(store_of(best.recipe))),
      "  ");
  const RunTraffic traffic = traffic_of(plan, plan.costs[plan.recommended->index]);
  print_line(
      fmt::format("all members together send {} and receive {}; through one server that is "
                  "{} up and {} down its line, on average",
                  format_bytes(traffic.sent_bytes), format_bytes(traffic.received_bytes),
                  format_rate(traffic.server_up_bit_s), format_rate(traffic.server_down_bit_s)),
      "  ");
}

}  // namespace

nlohmann::ordered_json plan_json(const plan::MethodPlan& plan) {
  nlohmann::ordered_json json = {{"recipe", plan.recipe.run.name},
                                 {"parameters", plan.model.parameters},
                                 {"parameters_non_embedding", plan.model.non_embedding},
                                 {"flops_per_token", plan.model.flops_per_token},
                                 {"steps", plan.recipe.train.steps}};
  for (const plan::Member& member : plan.members) json["members"].push_back(member_json(member));
  json["idle_members"] = nlohmann::ordered_json::array();
  for (const plan::Member& member : plan.idle) json["idle_members"].push_back(member_json(member));
  if (plan.seconds_with_all) json["seconds_with_all_members"] = *plan.seconds_with_all;
  for (size_t i = 0; i < plan.costs.size(); ++i) {
    json["methods"].push_back(cost_json(plan.costs[i]));
    const plan::Candidate& candidate = plan.candidates.all[i];
    if (!candidate.hosts) continue;
    nlohmann::ordered_json& method = json["methods"].back();
    const RunTraffic traffic = traffic_of(plan, plan.costs[i]);
    method["store_bytes"] = store_of(candidate.recipe).total();
    method["all_sent_bytes"] = traffic.sent_bytes;
    method["all_received_bytes"] = traffic.received_bytes;
    method["server_up_bit_s"] = traffic.server_up_bit_s;
    method["server_down_bit_s"] = traffic.server_down_bit_s;
  }
  json["left_out"] = nlohmann::ordered_json::array();
  for (const plan::LeftOut& one : plan.candidates.left_out) {
    json["left_out"].push_back({{"method", one.method}, {"reason", one.reason}});
  }
  json["recommended"] = nullptr;
  if (plan.recommended) {
    const plan::MethodCost& best = plan.costs[plan.recommended->index];
    json["recommended"] = {
        {"method", best.method},
        {"setting", best.setting},
        {"microbatch", best.microbatch},
        {"reason", fmt::format("{}: {}", best.name(), fmt::join(plan.recommended->reasons, "; "))}};
  }
  return json;
}

std::vector<std::string> lines_of_recommendation(const plan::MethodPlan& plan) {
  const plan::MethodCost& best = plan.costs[plan.recommended->index];
  std::vector<std::string> lines = {best.name()};
  lines.insert(lines.end(), plan.recommended->reasons.begin(), plan.recommended->reasons.end());
  if (!plan.idle.empty()) lines.push_back(idle_sentence(plan));
  if (best.microbatch != plan.recipe.train.microbatch) {
    lines.push_back(fmt::format("train.microbatch={}, for memory", best.microbatch));
  }
  return lines;
}

void print_plan(const plan::MethodPlan& plan, bool all) {
  const int64_t idle = plan::member_count(plan.idle);
  const int64_t taking_part = plan::member_count(plan.members);
  fmt::print("{} parameters, {}{}, {} of {} tokens\n\n", format_parameters(plan.model.parameters),
             idle > 0 ? fmt::format("{} of ", taking_part) : "",
             counted(taking_part + idle, "member"), counted(plan.recipe.train.steps, "step"),
             plan.recipe.train.batch * plan.recipe.train.sequence);
  print_recommendation(plan);
  const report::Table table = all ? table_of(plan) : fastest_of(plan);
  if (!table.rows.empty()) fmt::print("\n{}\n", table.terminal());
  if (all) fmt::print("In parentheses: a paper's schedule, only simulated here.\n");
  fmt::print("Loss: {}; unknown: no run or paper supports a figure.\n",
             plan.laws.empty() ? "the scaling laws of arXiv 2409.13198"
                               : "laws fitted to your own runs where there are any");
  if (!all) {
    fmt::print(
        "With --all: the {} methods and settings that were compared, and why others were not.\n",
        plan.costs.size());
    return;
  }
  if (std::ranges::any_of(plan.costs, [](const auto& cost) { return !cost.too_small.empty(); })) {
    fmt::print("!: needs more memory than some member has.\n");
  }
  print_coverage(plan);
  for (const plan::LeftOut& one : plan.candidates.left_out) {
    print_line(fmt::format("Left out: {} ({})", one.method, one.reason));
  }
}

void draw_plan(const plan::MethodPlan& plan, const std::string& file) {
  constexpr int kPoints = 49;
  double slowest = plan.members.front().link.up_bit_s;
  for (const plan::Member& member : plan.members) {
    slowest = std::min(slowest, member.link.up_bit_s);
  }
  events::PlotSpec spec;
  spec.title = fmt::format("{} parameters, {} members", format_parameters(plan.model.parameters),
                           plan::member_count(plan.members));
  spec.x_label = "slowest line up, Mbit/s (all lines scaled alike)";
  spec.y_label = "compute utilisation";
  spec.log_x = true;
  spec.legend = events::Legend::kOutside;
  const std::vector<size_t> drawn = drawn_costs(plan);
  for (const size_t one : drawn) spec.series.push_back({label(plan.costs[one]), {}, {}});
  for (int i = 0; i < kPoints; ++i) {
    const double factor = std::pow(10, -2 + 4.0 * i / (kPoints - 1));
    auto members = plan.members;
    for (plan::Member& member : members) {
      member.link.up_bit_s *= factor;
      member.link.down_bit_s *= factor;
    }
    for (size_t curve = 0; curve < drawn.size(); ++curve) {
      const plan::Candidate& candidate = plan.candidates.all[drawn[curve]];
      spec.series[curve].x.push_back(slowest * factor / 1e6);
      spec.series[curve].y.push_back(
          plan::method_cost(candidate, members, plan.laws, plan.program_bytes).utilization);
    }
  }
  events::plot_lines(spec, file);
}

}  // namespace thinwire::cli

// thinwire plan RECIPE: every method's cost for a group of members, and which to take.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/plan.h"
#include "thinwire/cli/table.h"
#include "thinwire/config/table_list.h"
#include "thinwire/events/plot.h"
#include "thinwire/method/registry.h"
#include "thinwire/plan/method_cost.h"

namespace thinwire::cli {
namespace {

struct Arguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string members;         // a file or a number
  plan::MemberSection member;  // by flags, where there is no file
  std::string constants;
  double tolerance = 0.05;
  std::string save;
  PlanOutput output;
};

// All that is computed from the arguments.
struct Plan {
  config::Recipe recipe;
  plan::PlannedModel model;
  std::vector<plan::Member> members;
  std::vector<plan::MethodLaw> laws;
  plan::Candidates candidates;
  double program_bytes = 0;
  std::vector<plan::MethodCost> costs;
  std::optional<plan::Recommendation> recommended;
};

// FLOP/s by what `thinwire bench speed --json` printed.
double measured_flops(const std::string& file) {
  try {
    const auto json = nlohmann::json::parse(read_text_file(file));
    return json.at("tokens_per_second").get<double>() * json.at("flops_per_token").get<double>();
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(
        fmt::format("{} is not what thinwire bench speed --json prints: {}", file, error.what()));
  }
}

std::vector<plan::MemberSection> given_members(const Arguments& arguments, int64_t workers) {
  int64_t count = workers;
  const std::string& text = arguments.members;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  const bool number = text.empty() || (error == std::errc() && rest == end);
  if (!number && !fs::is_regular_file(text)) {
    throw UsageError(fmt::format(
        "--members must be a file or a number of members, got '{}', which is neither", text));
  }
  if (!number) return config::load_tables<plan::MemberSection>(text, "member");
  if (count < 1) throw UsageError(fmt::format("--members must be >= 1, got {}", count));
  plan::MemberSection member = arguments.member;
  member.count = count;
  return {member};
}

std::vector<plan::Member> members_of(const Arguments& arguments, const config::Recipe& recipe,
                                     const plan::PlannedModel& model) {
  auto sections = given_members(arguments, recipe.train.workers);
  for (plan::MemberSection& section : sections) {
    if (!section.speed.empty()) section.flops = measured_flops(section.speed);
  }
  return plan::resolve_members(sections, model.flops_per_token);
}

std::vector<plan::MethodCost> costs_for(const Plan& plan,
                                        const std::vector<plan::Member>& members) {
  std::vector<plan::MethodCost> costs;
  for (const plan::Candidate& candidate : plan.candidates.all) {
    costs.push_back(plan::method_cost(candidate, members, plan.laws, plan.program_bytes));
  }
  return costs;
}

Plan make_plan(Arguments arguments) {
  if (arguments.recipe.find('=') != std::string::npos) {
    arguments.overrides.insert(arguments.overrides.begin(), arguments.recipe);
    arguments.recipe.clear();
  }
  Plan plan;
  plan.program_bytes = static_cast<double>(resident_memory_bytes());
  plan.recipe = method::load_recipe(arguments.recipe, arguments.overrides);
  plan.model = plan::planned_model(plan.recipe);
  plan.members = members_of(arguments, plan.recipe, plan.model);
  if (!arguments.constants.empty()) plan.laws = plan::load_laws(arguments.constants);
  const int64_t count = plan::member_count(plan.members);
  plan.candidates = plan::make_candidates(arguments.recipe, arguments.overrides, count);
  plan.costs = costs_for(plan, plan.members);
  plan.recommended = plan::recommend(plan.costs, arguments.tolerance);
  return plan;
}

nlohmann::ordered_json memory_json(const plan::StepMemory& memory) {
  return {{"weights", memory.weights},
          {"gradients", memory.gradients},
          {"consensus_state", memory.consensus},
          {"local_state", memory.local},
          {"activations", memory.activations},
          {"cross_entropy", memory.cross_entropy},
          {"thread_buffers", memory.thread_buffers},
          {"program", memory.program}};
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
          {"loss", cost.loss.nats},
          {"loss_basis", cost.loss.basis},
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

nlohmann::ordered_json as_json(const Plan& plan) {
  nlohmann::ordered_json json = {{"recipe", plan.recipe.run.name},
                                 {"parameters", plan.model.parameters},
                                 {"parameters_non_embedding", plan.model.non_embedding},
                                 {"flops_per_token", plan.model.flops_per_token},
                                 {"steps", plan.recipe.train.steps}};
  for (const plan::Member& member : plan.members) json["members"].push_back(member_json(member));
  for (const plan::MethodCost& cost : plan.costs) json["methods"].push_back(cost_json(cost));
  json["left_out"] = nlohmann::ordered_json::array();
  for (const plan::LeftOut& one : plan.candidates.left_out) {
    json["left_out"].push_back({{"method", one.method}, {"reason", one.reason}});
  }
  json["recommended"] = nullptr;
  if (plan.recommended) {
    const plan::MethodCost& best = plan.costs[plan.recommended->index];
    json["recommended"] = {{"method", best.method},
                           {"setting", best.setting},
                           {"microbatch", best.microbatch},
                           {"reason", plan.recommended->reason}};
  }
  return json;
}

std::string name_of(const plan::MethodCost& cost) {
  std::string name = cost.runs ? cost.method : "(" + cost.method + ")";
  return cost.setting.empty() ? name : name + ", " + cost.setting;
}

Table table_of(const Plan& plan) {
  bool energy = false;
  bool money = false;
  for (const plan::Member& member : plan.members) {
    energy |= member.watts > 0;
    money |= member.price_per_hour > 0;
  }
  Table table{{{"method", true},
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
        name_of(cost), format_bytes(cost.sent_bytes), format_bytes(cost.received_bytes),
        format_rate(cost.peak_bit_s), format_seconds(cost.step_seconds),
        number_cell(cost.utilization, 3), format_seconds(cost.seconds)});
    if (energy) row.push_back(fmt::format("{:.4g} kWh", cost.kilowatt_hours));
    if (money) row.push_back(number_cell(cost.price, 2));
    row.push_back(format_bytes(cost.memory.total()) + (cost.too_small.empty() ? "" : " !"));
    row.push_back(number_cell(cost.loss.nats, 3));
    row.push_back(cost.bottleneck);
  }
  return table;
}

void print_text(const Plan& plan) {
  fmt::print("{} parameters, {} members, {} steps of {} tokens\n\n",
             format_parameters(plan.model.parameters), plan::member_count(plan.members),
             plan.recipe.train.steps, plan.recipe.train.batch * plan.recipe.train.sequence);
  fmt::print("{}\n", table_of(plan).terminal());
  fmt::print("In parentheses: a paper's schedule, only simulated here. Loss: {}.\n",
             plan.laws.empty() ? "the scaling laws of arXiv 2409.13198, which know no DisTrO"
                               : "laws fitted to own runs where there are some");
  if (std::ranges::any_of(plan.costs, [](const auto& cost) { return !cost.too_small.empty(); })) {
    fmt::print("!: more memory than some member has.\n");
  }
  for (const plan::LeftOut& one : plan.candidates.left_out) {
    fmt::print("Left out: {} ({})\n", one.method, one.reason);
  }
  if (!plan.recommended) {
    fmt::print("Nothing that runs fits into every member's memory.\n");
    return;
  }
  const int64_t microbatch = plan.costs[plan.recommended->index].microbatch;
  fmt::print("Recommended: {}{}\n", plan.recommended->reason,
             microbatch == plan.recipe.train.microbatch
                 ? ""
                 : fmt::format("; train.microbatch = {}, for memory", microbatch));
}

// The methods as they come, and the recommended one: more curves than these cannot be told apart.
std::vector<size_t> drawn_costs(const Plan& plan) {
  std::vector<size_t> drawn;
  for (size_t i = 0; i < plan.costs.size(); ++i) {
    const bool recommended = plan.recommended && plan.recommended->index == i;
    if (recommended || (plan.costs[i].runs && plan.costs[i].setting.empty())) drawn.push_back(i);
  }
  return drawn;
}

// Compute utilisation while all lines grow alike, over the rate up of the slowest.
void draw(const Plan& plan, const std::string& file) {
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
  for (const size_t one : drawn) spec.series.push_back({name_of(plan.costs[one]), {}, {}});
  for (int i = 0; i < kPoints; ++i) {
    const double factor = std::pow(10, -2 + 4.0 * i / (kPoints - 1));
    auto members = plan.members;
    for (plan::Member& member : members) {
      member.link.up_bit_s *= factor;
      member.link.down_bit_s *= factor;
    }
    const auto costs = costs_for(plan, members);
    for (size_t curve = 0; curve < drawn.size(); ++curve) {
      spec.series[curve].x.push_back(slowest * factor / 1e6);
      spec.series[curve].y.push_back(costs[drawn[curve]].utilization);
    }
  }
  events::plot_lines(spec, file);
}

// The recommended recipe, reported for the slowest of the members' lines.
void save(const Plan& plan, const std::string& file) {
  if (!plan.recommended) {
    throw Error(
        fmt::format("nothing to write into {}: no method that runs fits into memory", file));
  }
  config::Recipe recipe = plan.candidates.all[plan.recommended->index].recipe;
  recipe.train.microbatch = plan.costs[plan.recommended->index].microbatch;
  recipe.links.up_bit_s = plan.members.front().link.up_bit_s;
  recipe.links.down_bit_s = plan.members.front().link.down_bit_s;
  recipe.links.delay_s = plan.members.front().link.delay_s;
  for (const plan::Member& member : plan.members) {
    recipe.links.up_bit_s = std::min(recipe.links.up_bit_s, member.link.up_bit_s);
    recipe.links.down_bit_s = std::min(recipe.links.down_bit_s, member.link.down_bit_s);
    recipe.links.delay_s = std::max(recipe.links.delay_s, member.link.delay_s);
  }
  write_file(file,
             fmt::format("# {}\n\n{}", plan.recommended->reason, config::print_recipe(recipe)));
}

void run(const Arguments& arguments) {
  const Plan plan = make_plan(arguments);
  if (arguments.output.json) {
    fmt::print("{}\n", as_json(plan).dump(2));
  } else {
    print_text(plan);
  }
  if (!arguments.output.plot.empty()) draw(plan, arguments.output.plot);
  if (!arguments.save.empty()) save(plan, arguments.save);
}

}  // namespace

void add_plan_methods(CLI::App& plan) {
  const auto arguments = std::make_shared<Arguments>();
  plan::MemberSection& member = arguments->member;
  plan.add_option("recipe", arguments->recipe, "Recipe of the run; may be left out");
  plan.add_option("overrides", arguments->overrides, "Recipe fields, table.field=value");
  plan.add_option(
      "--members", arguments->members,
      "File that lists the members (docs/planner.md), or how many equal ones there are; "
      "default train.workers");
  add_quantity(plan, "--flops", member.flops, "FLOP/s", "What a member really does in training");
  add_quantity(plan, "--tokens-per-second", member.tokens_per_second, "tokens/s",
               "Or what it trains on, of this recipe");
  plan.add_option("--speed", member.speed,
                  "Or the file with what thinwire bench speed --json printed")
      ->check(CLI::ExistingFile);
  add_quantity(plan, "--memory", member.memory_bytes, "B", "A member's memory");
  add_quantity(plan, "--up", member.up_bit_s, "bit/s", "A member's line up");
  add_quantity(plan, "--down", member.down_bit_s, "bit/s", "A member's line down");
  add_quantity(plan, "--delay", member.delay_s, "s", "One-way delay of its line");
  add_quantity(plan, "--watts", member.watts, "W", "What a member draws");
  add_quantity(plan, "--price", member.price_per_hour, "", "Price of a member and hour");
  plan.add_option("--constants", arguments->constants,
                  "Laws that thinwire plan fit --save wrote, instead of the paper's")
      ->check(CLI::ExistingFile);
  plan.add_option("--tolerance", arguments->tolerance,
                  "Nats of expected loss that may be given up for time")
      ->capture_default_str();
  plan.add_option("--save", arguments->save, "Write the recommended recipe into this file");
  add_output(plan, arguments->output, "compute utilisation over the lines' rate");
  plan.callback([arguments, &plan] {
    if (plan.get_subcommands().empty()) run(*arguments);
  });
}

}  // namespace thinwire::cli

// thinwire plan RECIPE: every method's cost for a group of members, and which to choose.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/config/table_list.h"
#include "thinwire/config/values.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/shared_recipe.h"

namespace thinwire::cli {
namespace {

constexpr int64_t kMaxMembers = 1'000'000;
constexpr std::string_view kSpeedOptions =
    "--gpu, --flops, --tokens-per-second or --speed (a file with what `thinwire bench speed "
    "--json` "
    "printed on a member)";

struct PlanMethodsArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string members;         // a file or a number
  plan::MemberSection member;  // from options, if there is no file
  std::vector<const CLI::Option*> member_options;
  std::string constants;
  double tolerance = 0.05;
  bool hosts = false;
  bool all = false;
  std::string save;
  PlanOutput output;
};

// FLOP/s according to what `thinwire bench speed --json` printed.
double measured_flops(const std::string& file) {
  try {
    const auto json = parse_json<nlohmann::json>(read_text_file(file));
    return json.at("tokens_per_second").get<double>() * json.at("flops_per_token").get<double>();
  } catch (const nlohmann::json::exception&) {
    throw UsageError(
        fmt::format("{} is not what `thinwire bench speed --json` prints: a JSON object with the "
                    "numbers tokens_per_second and flops_per_token",
                    file));
  }
}

// The options that describe every member, as they were given.
std::vector<std::string> given_options(const PlanMethodsArguments& arguments) {
  std::vector<std::string> names;
  for (const CLI::Option* option : arguments.member_options) {
    if (option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

std::vector<plan::MemberSection> listed_members(const PlanMethodsArguments& arguments) {
  const std::vector<std::string> options = given_options(arguments);
  if (!options.empty()) {
    throw UsageError(
        fmt::format("{} cannot be given with --members {}: the file describes each member",
                    fmt::join(options, ", "), arguments.members));
  }
  return config::load_tables<plan::MemberSection>(arguments.members, "member");
}

void check_one_speed(const plan::MemberSection& member) {
  const int given = (member.flops > 0) + (member.tokens_per_second > 0) + !member.speed.empty() +
                    !member.gpu.empty();
  if (given < 2) return;
  throw UsageError(
      "only one of --flops, --tokens-per-second, --speed and --gpu can say how fast a member is");
}

std::vector<plan::MemberSection> given_members(const PlanMethodsArguments& arguments,
                                               int64_t workers) {
  int64_t count = workers;
  const std::string& text = arguments.members;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  const bool number = text.empty() || (error == std::errc() && rest == end);
  if (!number && !fs::is_regular_file(text)) {
    throw UsageError(fmt::format(
        "--members must be a file or a number of members, got '{}', which is neither", text));
  }
  if (!number) return listed_members(arguments);
  if (count < 1 || count > kMaxMembers) {
    throw UsageError(fmt::format("--members must be >= 1 and <= {}, got {}", kMaxMembers, count));
  }
  check_one_speed(arguments.member);
  plan::MemberSection member = arguments.member;
  member.name = "every member";
  member.count = count;
  return {member};
}

std::vector<plan::Member> members_of(const PlanMethodsArguments& arguments,
                                     const config::Recipe& recipe,
                                     const plan::PlannedModel& model) {
  auto sections = given_members(arguments, recipe.train.workers);
  const bool listed = !arguments.members.empty() && fs::is_regular_file(arguments.members);
  for (plan::MemberSection& section : sections) {
    if (!section.speed.empty()) section.flops = measured_flops(section.speed);
    if (!listed && section.flops == 0 && section.tokens_per_second == 0 && section.gpu.empty()) {
      section.flops = flops_here(recipe, arguments.hosts, kSpeedOptions);
    }
  }
  return plan::resolve_members(sections, model.flops_per_token);
}

// Without the candidates that members on many hosts cannot run, and the schedules that nothing
// runs.
void keep_hosted(plan::Candidates& candidates) {
  std::vector<plan::Candidate> hosted;
  for (plan::Candidate& candidate : candidates.all) {
    if (candidate.simulated) continue;
    try {
      hosts::check_servable(candidate.recipe);
      candidate.hosts = true;
      hosted.push_back(std::move(candidate));
    } catch (const UsageError& error) {
      if (candidate.setting.empty()) {
        candidates.left_out.push_back({candidate.method, error.what()});
      }
    }
  }
  candidates.all = std::move(hosted);
}

plan::MethodPlan make_plan(PlanMethodsArguments arguments) {
  separate_recipe(arguments.recipe, arguments.overrides);
  plan::MethodPlan plan;
  plan.program_bytes = static_cast<double>(resident_memory_bytes());
  plan.recipe = load_run_recipe(arguments.recipe, arguments.overrides);
  arguments.overrides =
      with_initial_model(arguments.recipe, std::move(arguments.overrides), plan.recipe);
  plan.model = plan::planned_model(plan.recipe);
  plan.members = members_of(arguments, plan.recipe, plan.model);
  if (!arguments.constants.empty()) plan.laws = plan::load_laws(arguments.constants);
  plan::PlanQuestion question{arguments.recipe, arguments.overrides, arguments.tolerance};
  if (arguments.hosts) question.keep = keep_hosted;
  try {
    return plan::plan_methods(std::move(plan), question);
  } catch (const UsageError& error) {
    if (arguments.members.empty()) throw;
    throw UsageError(fmt::format("--members {}: {}", arguments.members, error.what()));
  }
}

// The recommended recipe, reported for the slowest of the members' lines.
void save(const plan::MethodPlan& plan, const std::string& file) {
  if (!plan.recommended) {
    throw Error(fmt::format(
        "nothing to write to {}: no method that can run fits into memory with a loss that is known",
        file));
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
  write_file(file, fmt::format("# {}\n\n{}", fmt::join(lines_of_recommendation(plan), "\n# "),
                               config::print_recipe(recipe)));
  events::print_message(fmt::format("wrote the recommended recipe to {}", file));
}

// A mistyped subcommand looks like a recipe.
void check_recipe_word(CLI::App& plan, const std::string& word) {
  if (word.empty() || word.find('=') != std::string::npos || fs::exists(word)) return;
  std::vector<std::string> names;
  for (const CLI::App* one : plan.get_subcommands({})) names.push_back(one->get_name());
  const std::string near = config::nearest_name(word, names);
  if (near.empty() && word.find_first_of("./") != std::string::npos) return;  // a file's name
  throw UsageError(
      fmt::format("there is no recipe file {}; {}", word,
                  near.empty() ? fmt::format("the commands of plan are {}", fmt::join(names, ", "))
                               : fmt::format("did you mean thinwire plan {}?", near)));
}

void run_plan_methods(const PlanMethodsArguments& arguments) {
  const plan::MethodPlan plan = make_plan(arguments);
  if (arguments.output.json) {
    fmt::print("{}\n", print_json(plan_json(plan), {.indent = 2}));
  } else {
    print_plan(plan, arguments.all);
  }
  if (!arguments.output.plot.empty()) draw_plan(plan, arguments.output.plot);
  if (!arguments.save.empty()) save(plan, arguments.save);
}

void add_member_options(CLI::App& plan, PlanMethodsArguments& arguments) {
  plan::MemberSection& member = arguments.member;
  arguments.member_options = {
      add_quantity(
          plan, "--flops", member.flops, kRate, "FLOP/s",
          "Speed that a member achieves in training; measured on this machine if not given"),
      add_quantity(plan, "--tokens-per-second", member.tokens_per_second, {1e-3, 1e15}, "tokens/s",
                   "Alternatively, its speed on this recipe in tokens"),
      plan.add_option("--speed", member.speed,
                      "Alternatively, a file with the output of thinwire bench speed --json")
          ->check(existing_file()),
      plan.add_option("--gpu", member.gpu,
                      "Alternatively, its GPU or kind of Mac, such as \"RTX 4090\""),
      add_quantity(plan, "--memory", member.memory_bytes, {1, kAmount.max}, "B",
                   "A member's memory"),
      add_quantity(plan, "--up", member.up_bit_s, kRate, "bit/s", "A member's upload rate"),
      add_quantity(plan, "--down", member.down_bit_s, kRate, "bit/s", "A member's download rate"),
      add_quantity(plan, "--delay", member.delay_s, kDuration, "s", "One-way delay of its line"),
      add_quantity(plan, "--watts", member.watts, kAmount, "W", "Power that a member draws"),
      add_quantity(plan, "--price", member.price_per_hour, kAmount, "",
                   "Price per member and hour")};
}

}  // namespace

void add_plan_methods(CLI::App& plan) {
  const auto arguments = std::make_shared<PlanMethodsArguments>();
  plan.add_option("recipe", arguments->recipe, "Recipe of the run; may be left out");
  add_overrides(plan, arguments->overrides);
  plan.add_option("--members", arguments->members,
                  "File that lists the members (docs/planner.md), or a number of equal members; "
                  "default train.workers");
  add_member_options(plan, *arguments);
  plan.add_flag("--hosts", arguments->hosts,
                "Members join a run that thinwire serve serves (docs/hosts.md)");
  plan.add_flag("--all", arguments->all, "Show every method and setting that was compared");
  plan.add_option("--constants", arguments->constants,
                  "Laws that thinwire plan fit --save wrote, instead of the paper's")
      ->check(existing_file());
  add_quantity(plan, "--tolerance", arguments->tolerance, {0, 1000}, "nats",
               "Expected loss that may be given up to save time");
  plan.add_option("--save", arguments->save, "Write the recommended recipe to this new file")
      ->check(new_file());
  add_output(plan, arguments->output, "compute utilisation over the rate of the lines");
  plan.callback([arguments, &plan] {
    if (!plan.get_subcommands().empty()) return;
    check_recipe_word(plan, arguments->recipe);
    run_plan_methods(*arguments);
  });
}

}  // namespace thinwire::cli

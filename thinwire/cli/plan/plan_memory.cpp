// thinwire plan memory RECIPE --limit SIZE: ways to train within a memory limit.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/base/memory.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/plan/memory_choices.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

using plan::MemoryChoice;

struct PlanMemoryArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  double limit = 0;  // 0: what this machine has
  double flops = 0;  // 0: unknown
  bool json = false;
};

double part(const MemoryChoice& choice, std::string_view name) {
  const auto found = std::ranges::find(choice.parts, name, &MemoryPart::name);
  return found == choice.parts.end() ? 0 : found->bytes;
}

nlohmann::ordered_json choice_json(const MemoryChoice& choice, double flops) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::object();
  for (const MemoryPart& one : choice.parts) parts[one.name] = one.bytes;
  nlohmann::ordered_json json = {{"optimizer", choice.optimizer},
                                 {"ways", choice.names},
                                 {"fields", choice.fields},
                                 {"concession", choice.quality_cost},
                                 {"memory_bytes", choice.bytes()},
                                 {"memory", parts},
                                 {"bytes_sent_per_step", choice.sent_bytes},
                                 {"bytes_received_per_step", choice.received_bytes},
                                 {"tokens_per_step", choice.tokens},
                                 {"flops_per_step", choice.flops}};
  if (flops > 0) json["compute_seconds_per_step"] = choice.flops / flops;
  return json;
}

void show_json(const PlanMemoryArguments& arguments, const std::vector<MemoryChoice>& choices) {
  nlohmann::ordered_json json = {{"limit_bytes", arguments.limit},
                                 {"fits", nlohmann::json::array()}};
  for (const MemoryChoice& choice : choices) {
    if (choice.bytes() <= arguments.limit) {
      json["fits"].push_back(choice_json(choice, arguments.flops));
    }
  }
  json["smallest"] = choice_json(plan::smallest(choices), arguments.flops);
  fmt::print("{}\n", print_json(json, {.indent = 2}));
}

// Time is that of the recipe as it is, if the machine's speed is not given.
report::Table table_of(const PlanMemoryArguments& arguments,
                       const std::vector<const MemoryChoice*>& best, double given_flops) {
  const bool timed = arguments.flops > 0;
  report::Table table{{{"", false},
                       {"optimizer", true},
                       {"memory"},
                       {"weights"},
                       {"gradients"},
                       {"state"},
                       {"pass"},
                       {"sent\na step"},
                       {timed ? "computing\na token" : "work\na token"},
                       {"with", true}},
                      {}};
  for (const MemoryChoice* choice : best) {
    const double weights = part(*choice, "weights") + part(*choice, "window of files");
    const double pass = part(*choice, "activations") + part(*choice, "logits") +
                        part(*choice, "buffers of threads");
    const double a_token = choice->flops_per_token();
    table.rows.push_back({std::to_string(table.rows.size() + 1), choice->optimizer,
                          format_bytes(choice->bytes()), format_bytes(weights),
                          format_bytes(part(*choice, "gradients")),
                          format_bytes(part(*choice, "optimizer and method")), format_bytes(pass),
                          format_bytes(choice->sent_bytes),
                          timed ? format_seconds(a_token / arguments.flops)
                                : fmt::format("{:.2f} x", a_token / given_flops),
                          fmt::format("{}", fmt::join(choice->names, ", "))});
  }
  return table;
}

// The recipe as it is needs no concession and sets no field.
const MemoryChoice& as_given(const std::vector<MemoryChoice>& choices) {
  return *std::ranges::find_if(choices, [](const auto& one) { return one.fields.empty(); });
}

void print_text(const PlanMemoryArguments& arguments, const std::vector<MemoryChoice>& choices) {
  const MemoryChoice& given = as_given(choices);
  fmt::print("As it is, a worker of this recipe needs {}; the limit is {}.\n\n",
             format_bytes(given.bytes()), format_bytes(arguments.limit));
  const std::vector<const MemoryChoice*> best = plan::best_within(choices, arguments.limit);
  if (best.empty()) {
    const MemoryChoice& least = plan::smallest(choices);
    fmt::print("Nothing fits. The least is {}, with {}\n", format_bytes(least.bytes()),
               fmt::join(least.fields, " "));
    return;
  }
  fmt::print("{}\n", table_of(arguments, best, given.flops_per_token()).terminal());
  fmt::print(
      "The best first: what changes the result least, then what computes least. Each optimizer "
      "needs\nits own learning rate (its page under thinwire/optimizers).\n\n");
  for (size_t i = 0; i < best.size(); ++i) {
    fmt::print(
        "{}: {}\n", i + 1,
        best[i]->fields.empty() ? "as it is" : fmt::format("{}", fmt::join(best[i]->fields, " ")));
  }
}

void run_plan_memory(PlanMemoryArguments arguments) {
  separate_recipe(arguments.recipe, arguments.overrides);
  if (arguments.limit == 0) arguments.limit = machine_memory().total;
  const config::Recipe run = load_run_recipe(arguments.recipe, arguments.overrides);
  arguments.overrides = with_initial_model(arguments.recipe, std::move(arguments.overrides), run);
  const auto program = static_cast<double>(resident_memory_bytes());
  const std::vector<MemoryChoice> choices =
      plan::memory_choices(arguments.recipe, arguments.overrides, program);
  arguments.json ? show_json(arguments, choices) : print_text(arguments, choices);
}

}  // namespace

void add_plan_memory(CLI::App& plan) {
  auto* command = add_command(plan, "memory", "Lists ways to train a recipe within a memory limit");
  const auto arguments = std::make_shared<PlanMemoryArguments>();
  command->add_option("recipe", arguments->recipe, "Recipe of the run; may be left out");
  add_overrides(*command, arguments->overrides);
  add_quantity(*command, "--limit", arguments->limit, {1, kAmount.max}, "B",
               "Memory of a worker, e.g. 4G or 16GiB; default: this machine's");
  add_quantity(*command, "--flops", arguments->flops, kRate, "FLOP/s",
               "Speed that a worker achieves in training, to show times instead of relative work");
  command->add_flag("--json", arguments->json, "Print JSON with every combination that fits");
  command->callback([arguments] { run_plan_memory(*arguments); });
}

}  // namespace thinwire::cli

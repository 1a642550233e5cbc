// thinwire bench speed: training steps of a recipe on this machine, without data or other workers.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/bench/speed.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

struct BenchSpeedArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bench::SpeedOptions options;
  bool parts = false;
  bool json = false;
};

void show_json(const bench::SpeedResult& result) {
  nlohmann::json parts = nlohmann::json::object();
  for (const bench::TimedPart& part : result.parts) parts[std::string(part.name)] = part.seconds;
  nlohmann::json memory = nlohmann::json::object();
  for (const bench::HeldPart& part : result.memory) {
    memory[std::string(part.name)] = {{"predicted", part.predicted}, {"held", part.held}};
  }
  const nlohmann::json line = {{"params", result.params},
                               {"tokens_per_step", result.tokens_per_step},
                               {"tokens_per_second", result.tokens_per_second()},
                               {"flops_per_token", result.flops_per_token},
                               {"step_seconds", result.seconds},
                               {"part_seconds", parts},
                               {"losses", result.losses},
                               {"loaded_bytes", result.loaded_bytes},
                               {"peak_bytes", result.peak_bytes},
                               {"program_bytes", result.program_bytes},
                               {"predicted_bytes", result.predicted_bytes},
                               {"memory", memory}};
  fmt::print("{}\n", print_json(line));
}

// Where a step's time goes, beside the time it would take at the machine's best speed.
void print_parts(const bench::SpeedResult& result, int threads) {
  const bench::MachineSpeed machine = bench::measure_machine(threads);
  report::Table table{{{"part", true}, {"ms"}, {"share, %"}, {"at best, ms"}, {"of best, %"}}, {}};
  const auto add = [&](std::string_view name, double seconds, double best, double all) {
    table.rows.push_back({std::string(name), report::number_cell(1e3 * seconds, 1),
                          report::number_cell(100 * seconds / all, 1),
                          report::number_cell(1e3 * best, 1),
                          report::number_cell(100 * best / seconds, 0)});
  };
  double all = 0, best = 0;
  for (const bench::TimedPart& part : result.parts) {
    all += part.seconds;
    best += part.limit_seconds(machine, result.precision);
  }
  for (const bench::TimedPart& part : result.parts) {
    add(part.name, part.seconds, part.limit_seconds(machine, result.precision), all);
  }
  add("step", all, best, all);
  fmt::print("\n{}", table.terminal());
  fmt::print(
      "at best: products at {}FLOP/s, memory at {}B/s\n",
      format_count(result.precision == Precision::kBf16 ? machine.gemm_bf16 : machine.gemm_fp32),
      format_count(machine.copy));
}

void print_text(const bench::SpeedResult& result, const config::Recipe& recipe) {
  const double rate = result.tokens_per_second();
  const auto [least, most] = std::minmax_element(result.seconds.begin(), result.seconds.end());
  fmt::print(
      "{} parameters, {}, {}, {} tokens a step\n"
      "{} tokens/s, {}FLOP/s in matrix products\n"
      "a step takes {} (median of {}; {} to {})\n"
      "memory: {}B of parameters and program, {}B more for a step\n",
      format_count(static_cast<double>(result.params)), name_of(recipe.train.precision),
      counted(recipe.train.threads, "thread"), result.tokens_per_step, format_count(rate),
      format_count(rate * result.flops_per_token), format_seconds(result.median_seconds()),
      result.seconds.size(), format_seconds(*least), format_seconds(*most),
      format_count(static_cast<double>(result.loaded_bytes)),
      format_count(static_cast<double>(result.peak_bytes - result.loaded_bytes)));
}

void run_bench_speed(const BenchSpeedArguments& arguments) {
  const config::Recipe recipe = load_run_recipe(arguments.recipe, arguments.overrides);
  bench::SpeedOptions options = arguments.options;
  options.message = events::print_message;
  const bench::SpeedResult result = bench::measure_speed(recipe, options);
  arguments.json ? show_json(result) : print_text(result, recipe);
  if (!arguments.parts || arguments.json) return;
  if (result.parts.empty()) throw UsageError("--parts needs train.device=cpu");
  print_parts(result, static_cast<int>(recipe.train.threads));
}

}  // namespace

void add_bench_speed(CLI::App& bench) {
  auto* command =
      add_command(bench, "speed", "Times the training steps of a single worker of a recipe");
  const auto arguments = std::make_shared<BenchSpeedArguments>();
  add_recipe_file(*command, arguments->recipe);
  add_overrides(*command, arguments->overrides);
  add_count(*command, "--steps", arguments->options.steps, 1, 1'000'000, "Number of timed steps");
  add_count(*command, "--warmup", arguments->options.warmup, 0, 1'000'000,
            "Untimed steps before them");
  command
      ->add_option("--tokens", arguments->options.tokens,
                   "File of batches of int32 tokens to train on (default: a random batch)")
      ->check(existing_file());
  command->add_flag("--parts", arguments->parts,
                    "Also show the parts of a step beside their limits on this machine");
  command->add_flag("--json", arguments->json, "Print one line of JSON instead");
  command->callback([arguments] { run_bench_speed(*arguments); });
}

}  // namespace thinwire::cli

// thinwire bench: what this machine can do; and thinwire bench machine: the limits of training
// steps on it.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "thinwire/base/cores.h"
#include "thinwire/base/json.h"
#include "thinwire/bench/speed.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

struct BenchMachineArguments {
  int threads = available_cores();
  double seconds = 1;
  bool json = false;
};

void show_json(const bench::MachineSpeed& speed) {
  const nlohmann::json line = {{"threads", speed.threads},
                               {"gemm_fp32_flop_s", speed.gemm_fp32},
                               {"gemm_bf16_flop_s", speed.gemm_bf16},
                               {"read_byte_s", speed.read},
                               {"copy_byte_s", speed.copy}};
  fmt::print("{}\n", print_json(line));
}

void print_table(const std::vector<bench::MachineSpeed>& speeds) {
  report::Table table{{{"threads"},
                       {"fp32 products\nGFLOP/s"},
                       {"bf16 products\nGFLOP/s"},
                       {"reading\nGB/s"},
                       {"copying\nGB/s"}},
                      {}};
  for (const bench::MachineSpeed& speed : speeds) {
    table.rows.push_back(
        {std::to_string(speed.threads), report::number_cell(speed.gemm_fp32 / 1e9, 0),
         report::number_cell(speed.gemm_bf16 / 1e9, 0), report::number_cell(speed.read / 1e9, 1),
         report::number_cell(speed.copy / 1e9, 1)});
  }
  fmt::print("{}", table.terminal());
}

void run_bench_machine(const BenchMachineArguments& arguments) {
  std::vector<bench::MachineSpeed> speeds = {bench::measure_machine(1, arguments.seconds)};
  if (arguments.threads > 1) {
    speeds.push_back(bench::measure_machine(arguments.threads, arguments.seconds));
  }
  if (!arguments.json) return print_table(speeds);
  for (const bench::MachineSpeed& speed : speeds) show_json(speed);
}

}  // namespace

void add_bench_machine(CLI::App& bench) {
  auto* command =
      add_command(bench, "machine",
                  "Measures the speed of matrix products and of memory, on one thread and on all");
  const auto arguments = std::make_shared<BenchMachineArguments>();
  add_count(*command, "--threads", arguments->threads, 1, kMaxThreads,
            "Number of threads that count as all");
  add_quantity(*command, "--seconds", arguments->seconds, {0.001, 3600}, "s",
               "Time for each figure");
  command->add_flag("--json", arguments->json, "Print one line of JSON for each number of threads");
  command->callback([arguments] { run_bench_machine(*arguments); });
}

void add_bench(CLI::App& app) {
  auto* command = add_command(app, "bench", "Measures what this machine can do");
  command->require_subcommand(1);
  add_bench_codec(*command);
  add_bench_machine(*command);
  add_bench_speed(*command);
}

}  // namespace thinwire::cli

// thinwire compare: finished runs side by side, as a table and as loss curves.
#include "thinwire/report/compare.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"

namespace thinwire::cli {
namespace {

struct CompareArguments {
  std::vector<std::string> folders;
  bool markdown = false;
  bool json = false;
  bool csv = false;
  std::string plot;
  report::CurveAxis over = report::CurveAxis::kSteps;
};

// The summaries as in their files, each with its folder.
std::string json_text(const std::vector<report::FinishedRun>& runs) {
  auto array = nlohmann::ordered_json::array();
  for (const report::FinishedRun& run : runs) {
    nlohmann::ordered_json item = {{"folder", run.folder.string()}};
    item.update(parse_json<nlohmann::ordered_json>(read_text_file(run.folder / "summary.json")));
    array.push_back(std::move(item));
  }
  return print_json(array, {.indent = 2}) + "\n";
}

std::string text(const CompareArguments& arguments, const std::vector<report::FinishedRun>& runs) {
  if (arguments.json) return json_text(runs);
  if (arguments.csv) return report::exact_compare_table(runs).csv();
  if (arguments.markdown)
    return report::compare_table(runs).markdown() + "\n" + report::result_legend(runs);
  return report::compare_table(runs).terminal() + "\n" + report::result_legend(runs);
}

void run_compare(const CompareArguments& arguments) {
  const report::FoundRuns found = report::find_runs(arguments.folders);
  for (const std::string& text : found.left_out) fmt::print(stderr, "left out: {}\n", text);
  const std::vector<report::FinishedRun>& runs = found.finished;
  if (runs.empty()) throw Error("no finished run among these to compare");
  fmt::print("{}", text(arguments, runs));
  if (arguments.plot.empty()) return;
  const report::CurveAxis axis = arguments.over;
  const report::Table table = report::compare_table(runs);
  std::vector<events::PlotSeries> curves;
  for (size_t i = 0; i < runs.size(); ++i) {
    curves.push_back(report::loss_curve(runs[i].folder, table.rows[i][0], axis));
  }
  events::plot_lines(report::loss_plot(std::move(curves), axis), arguments.plot);
}

}  // namespace

void add_compare(CLI::App& app) {
  auto* command = add_command(app, "compare", "Shows finished runs side by side");
  const auto arguments = std::make_shared<CompareArguments>();
  command->add_option("runs", arguments->folders, "Run folders, e.g. runs/*")
      ->required()
      ->check(refuse_empty);
  auto* format = command->add_option_group("format", "Format of the output");
  format->add_flag("--markdown", arguments->markdown, "Print a Markdown table");
  format->add_flag("--json", arguments->json, "Print JSON with everything in summary.json");
  format->add_flag("--csv", arguments->csv, "Print CSV in full precision");
  format->require_option(0, 1);
  auto* plot =
      add_plot(*command, arguments->plot, "Draw the training losses into this .png or .svg");
  add_choice(*command, "--over", arguments->over,
             "Horizontal axis of the plot; bytes are those that a worker has sent")
      ->needs(plot);
  command->callback([arguments] { run_compare(*arguments); });
}

}  // namespace thinwire::cli

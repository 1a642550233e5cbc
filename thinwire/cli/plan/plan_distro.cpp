// thinwire plan distro: the DisTrO report's arithmetic, for its own case and any other.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/events/plot.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/plan/distro_report.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

struct PlanDistroArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  plan::DistroCase setting;
  int64_t k = 0;  // 0: use the given payload
  int64_t chunk = 0;
  PlanOutput output;
};

// The case that the command computes.
struct Case {
  plan::DistroCase setting;
  std::optional<plan::DistroPayload> payload;  // if it follows from shapes
};

// The recipe with the options applied, which are named if they contradict it.
config::Recipe load(const PlanDistroArguments& arguments) {
  try {
    return load_run_recipe(arguments.recipe, arguments.overrides);
  } catch (const UsageError& error) {
    std::string options;
    if (arguments.k > 0) options += fmt::format("--k {} ", arguments.k);
    if (arguments.chunk > 0) options += fmt::format("--chunk {} ", arguments.chunk);
    if (options.empty()) throw;
    throw UsageError(fmt::format("{}: {}", options.substr(0, options.size() - 1), error.what()));
  }
}

Case resolve(PlanDistroArguments arguments) {
  separate_recipe(arguments.recipe, arguments.overrides);
  Case result{arguments.setting, std::nullopt};
  const bool tuned = arguments.k > 0 || arguments.chunk > 0;
  if (arguments.recipe.empty() && arguments.overrides.empty() && !tuned) return result;
  if (arguments.k > 0) arguments.overrides.push_back(fmt::format("distro.k={}", arguments.k));
  if (arguments.chunk > 0) {
    arguments.overrides.push_back(fmt::format("distro.chunk={}", arguments.chunk));
  }
  arguments.overrides.emplace_back("sync.method=distro");
  config::Recipe recipe = load(arguments);
  if (arguments.recipe.empty()) method::set_model(recipe, plan::report_model());
  if (recipe.model.vocab == 0) recipe.model.vocab = recipe.data.vocabulary_size;
  const auto tensors = method::tensors_of(recipe);
  result.payload =
      plan::distro_payload(recipe.section<method::DistroOptions>("distro"),
                           method::gradient_tensors(method::optimizer_options(recipe), tensors));
  result.setting.parameters = static_cast<double>(method::parameter_count(tensors));
  result.setting.payload_bytes = result.payload->bound_bytes;
  return result;
}

nlohmann::ordered_json as_json(const Case& chosen, const plan::DistroCost& cost) {
  const plan::DistroCase& setting = chosen.setting;
  nlohmann::ordered_json json = {
      {"parameters", setting.parameters},
      {"members", setting.members},
      {"topology", setting.topology},
      {"payload_bytes", setting.payload_bytes},
      {"all_reduce_bytes_per_step", cost.all_reduce_bytes},
      {"ring_bytes_per_step", cost.ring_bytes},
      {"distro_bytes_sent_per_step", cost.sent_bytes},
      {"distro_bytes_received_per_step", cost.received_bytes},
      {"ratio", cost.ratio},
      {"ratio_ring", cost.ratio_ring},
      {"ratio_ring_sent", cost.ratio_ring_sent},
      {"down_bit_s", setting.link.down_bit_s},
      {"up_bit_s", setting.link.up_bit_s},
      {"seconds_down", cost.seconds_down},
      {"seconds_up", cost.seconds_up},
  };
  if (chosen.payload) json["payload_entropy_bytes"] = chosen.payload->entropy_bytes;
  for (const plan::ConstantBytesPoint& point : plan::constant_bytes_curve(setting)) {
    json["constant_bytes"].push_back({{"parameters", point.parameters},
                                      {"ratio", point.ratio},
                                      {"ratio_ring", point.ratio_ring}});
  }
  return json;
}

void print_text(const Case& chosen, const plan::DistroCost& cost) {
  const plan::DistroCase& setting = chosen.setting;
  fmt::print("{} parameters, {} members, {}: one payload of {} per member and step{}\n\n",
             format_parameters(setting.parameters), setting.members, setting.topology,
             format_bytes(setting.payload_bytes),
             chosen.payload ? fmt::format(" at most (entropy of uniform slots: {})",
                                          format_bytes(chosen.payload->entropy_bytes))
                            : "");
  const report::Table table = {
      {{"per member and step", true},
       {"sent"},
       {"received"},
       {"÷ DisTrO\nreceived"},
       {"÷ DisTrO\nsent"}},
      {{"all-reduce, the report's yardstick: (m-1) * 2N", format_bytes(cost.all_reduce_bytes),
        format_bytes(cost.all_reduce_bytes), report::ratio_cell(cost.ratio),
        report::ratio_cell(cost.all_reduce_bytes / cost.sent_bytes)},
       {"ring all-reduce in bf16: 2(m-1)/m * 2N", format_bytes(cost.ring_bytes),
        format_bytes(cost.ring_bytes), report::ratio_cell(cost.ratio_ring),
        report::ratio_cell(cost.ratio_ring_sent)},
       {"DisTrO", format_bytes(cost.sent_bytes), format_bytes(cost.received_bytes), "1.00",
        "1.00"}}};
  fmt::print("{}\n", table.terminal());
  fmt::print("{} down at {}, {} up at {} (line rates; TCP carries at most 95.7 %)\n",
             format_seconds(cost.seconds_down), format_rate(setting.link.down_bit_s),
             format_seconds(cost.seconds_up), format_rate(setting.link.up_bit_s));
  const auto curve = plan::constant_bytes_curve(setting);
  fmt::print(
      "With the same bytes a step (the report's speculation) the ratio grows from {:.0f} at {} to "
      "{:.0f} at {} parameters.\n",
      curve.front().ratio, format_parameters(curve.front().parameters), curve.back().ratio,
      format_parameters(curve.back().parameters));
}

void draw(const Case& chosen, const std::string& file) {
  events::PlotSpec spec;
  spec.title = fmt::format("DisTrO with {} a step, whatever the model's size",
                           format_bytes(chosen.setting.payload_bytes));
  spec.x_label = "parameters";
  spec.y_label = "all-reduce bytes / bytes received";
  spec.log_x = spec.log_y = true;
  spec.legend = events::Legend::kBottomRight;
  spec.series = {{"the report's yardstick, 2N / payload", {}, {}}, {"against a bf16 ring", {}, {}}};
  for (const plan::ConstantBytesPoint& point : plan::constant_bytes_curve(chosen.setting)) {
    for (events::PlotSeries& series : spec.series) series.x.push_back(point.parameters);
    spec.series[0].y.push_back(point.ratio);
    spec.series[1].y.push_back(point.ratio_ring);
  }
  events::plot_lines(spec, file);
}

void run_plan_distro(const PlanDistroArguments& arguments) {
  const Case chosen = resolve(arguments);
  const plan::DistroCost cost = plan::distro_cost(chosen.setting);
  if (arguments.output.json) {
    fmt::print("{}\n", print_json(as_json(chosen, cost), {.indent = 2}));
  } else {
    print_text(chosen, cost);
  }
  if (!arguments.output.plot.empty()) draw(chosen, arguments.output.plot);
}

}  // namespace

void add_plan_distro(CLI::App& plan) {
  auto* command = add_command(
      plan, "distro",
      "Bytes and seconds per step of DisTrO; without arguments, the DisTrO report's case");
  const auto arguments = std::make_shared<PlanDistroArguments>();
  plan::DistroCase& setting = arguments->setting;
  command->add_option("recipe", arguments->recipe,
                      "Recipe whose model and [distro] determine the payload; may be left out");
  add_overrides(*command, arguments->overrides);
  add_count(*command, "--members", setting.members, 2, 1'000'000, "Members");
  command
      ->add_option("--topology", setting.topology,
                   "aggregator (a server adds up) or peers (each member uploads to every other)")
      ->check(one_of({"aggregator", "peers"}))
      ->capture_default_str();
  add_count(*command, "--k", arguments->k, 1, method::kMaxChunk * method::kMaxChunk,
            "Coefficients per full tile; without a recipe, for the report's model");
  add_count(*command, "--chunk", arguments->chunk, 1, method::kMaxChunk,
            "Side of a tile, with --k");
  add_number(*command, "--parameters", setting.parameters, kModelSize,
             "Parameters, without a recipe");
  add_quantity(*command, "--payload", setting.payload_bytes, {1, 1e18}, "B",
               "A member's payload per step, without a recipe");
  add_quantity(*command, "--up", setting.link.up_bit_s, kRate, "bit/s", "A member's upload rate");
  add_quantity(*command, "--down", setting.link.down_bit_s, kRate, "bit/s",
               "A member's download rate");
  add_output(*command, arguments->output, "the ratio over the model's size");
  command->callback([arguments] { run_plan_distro(*arguments); });
}

}  // namespace thinwire::cli

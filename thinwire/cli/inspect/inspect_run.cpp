#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "thinwire/base/digest.h"
#include "thinwire/base/units.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/cli/inspect/inspect.h"
#include "thinwire/events/run_log.h"
#include "thinwire/events/summary.h"
#include "thinwire/events/tensorboard.h"
#include "thinwire/method/registry.h"
#include "thinwire/report/compare.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

constexpr size_t kStepsShown = 5;
constexpr size_t kMessagesShown = 5;

std::string log_state(const events::RunHistory& history) {
  std::string text = counted(history.steps.size(), "step");
  if (!history.steps.empty()) {
    text += fmt::format(" ({} to {})", history.steps.front().step, history.steps.back().step);
  }
  text += fmt::format(", {}, {}", counted(history.evals.size(), "evaluation"),
                      counted(history.messages.size(), "message"));
  return text + (history.torn ? "; the last line is incomplete\n" : "\n");
}

std::string last_steps(const events::RunHistory& history) {
  report::Table table{{{"step"},
                       {"loss"},
                       {"learning rate"},
                       {"gradient norm"},
                       {"tokens/s"},
                       {"sent"},
                       {"received"},
                       {"time by phase", true}},
                      {}};
  const size_t from = history.steps.size() - std::min(history.steps.size(), kStepsShown);
  for (size_t i = from; i < history.steps.size(); ++i) {
    const events::StepEvent& event = history.steps[i];
    std::string phases;
    for (const auto& [phase, seconds] : event.seconds) {
      phases += fmt::format("{}{} {}", phases.empty() ? "" : ", ", phase, format_seconds(seconds));
    }
    table.rows.push_back({fmt::format("{}", event.step), report::number_cell(event.loss, 4),
                          fmt::format("{:.3g}", event.learning_rate),
                          report::number_cell(event.gradient_norm, 3),
                          format_count(event.tokens_per_second), format_bytes(event.bytes_sent),
                          format_bytes(event.bytes_received), phases});
  }
  return table.rows.empty() ? "" : table.terminal();
}

std::string last_evaluations(const events::RunHistory& history) {
  std::map<std::string, events::EvalEvent> newest;
  for (const events::EvalEvent& event : history.evals) newest[event.name] = event;
  std::string text;
  for (const auto& [name, event] : newest) {
    text += fmt::format("{}{} {:.4f} after step {}\n", name, event.score ? "" : " loss", event.loss,
                        event.step);
  }
  return text;
}

std::string last_messages(const events::RunHistory& history) {
  std::string text;
  const size_t from = history.messages.size() - std::min(history.messages.size(), kMessagesShown);
  for (size_t i = from; i < history.messages.size(); ++i) {
    text += fmt::format("step {}: {}\n", history.messages[i].step, history.messages[i].text);
  }
  return text;
}

std::string describe_history(const events::RunHistory& history) {
  return log_state(history) + last_steps(history) + last_evaluations(history) +
         last_messages(history);
}

// "step-00000100, step-00000200", oldest first.
std::string checkpoint_names(const fs::path& folder) {
  std::vector<std::string> names;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (checkpoint::is_checkpoint(entry.path()))
        names.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(names);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace

std::string describe_run(const fs::path& folder) {
  const config::Recipe recipe = method::load_recipe(folder / "recipe.toml", {});
  const bool finished = fs::exists(folder / "summary.json");
  std::string text =
      fmt::format("run {}: {} with {}, {} of {} x {} tokens, {}\nrecipe {}\n", recipe.run.name,
                  report::method_text(recipe.sync.method, name_of(recipe.sync.within)),
                  counted(recipe.train.workers, "worker"), counted(recipe.train.steps, "step"),
                  recipe.train.batch, recipe.train.sequence, finished ? "finished" : "not finished",
                  to_hex(hash_bytes(as_bytes(checkpoint::run_identity(recipe)))));
  text += fmt::format("checkpoints: {}\n", checkpoint_names(folder / "checkpoints"));
  const fs::path log = folder / "events.jsonl";
  if (fs::exists(log)) text += "events: " + describe_history(events::read_run_log(log));
  if (finished) text += "\n" + describe_summary(folder / "summary.json");
  return text;
}

std::string describe_checkpoints(const fs::path& folder) {
  const fs::path newest = *checkpoint::newest_checkpoint(folder);
  return fmt::format("checkpoints: {}\nnewest: {}\n{}", checkpoint_names(folder), newest.string(),
                     describe_checkpoint(newest));
}

std::string describe_run_log(const fs::path& file) {
  return describe_history(events::read_run_log(file));
}

std::string describe_summary(const fs::path& file) {
  const events::Summary run = events::read_summary(file);
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    fmt::format_to(std::back_inserter(text), "{:<18}{}\n", name, value);
  };
  line("name", run.name);
  line("method", fmt::format("{}, {}", report::method_text(run.method, run.within),
                             counted(run.workers, "worker")));
  line("trained", fmt::format("{}, {} tokens", counted(run.steps, "step"), run.tokens));
  line("parameters",
       fmt::format("{} ({} without embedding)", run.params, run.params_non_embedding));
  line("training loss", fmt::format("{}, {}", report::number_cell(run.train_loss, 4),
                                    events::describe_train_loss(run)));
  for (const auto& [name, loss] : run.val_loss) line(name + " loss", report::number_cell(loss, 4));
  line("bytes a step",
       fmt::format("{} sent, {} received a worker", format_bytes(run.bytes_sent_per_worker_step),
                   format_bytes(run.bytes_received_per_worker_step)));
  line("bf16 ring",
       fmt::format("{} times the bytes sent, {} times those received",
                   report::ratio_cell(run.ratio_ring_sent), report::ratio_cell(run.ratio_ring)));
  line("report's ratio", report::ratio_cell(run.ratio_report));
  line("time", fmt::format("{} here, {} over {:.4g}/{:.4g} Mbit/s", format_seconds(run.seconds),
                           format_seconds(run.seconds_over_links), run.link_down_bit_s / 1e6,
                           run.link_up_bit_s / 1e6));
  if (run.compute_utilization > 0) {
    line("computing", fmt::format("{:.1f} % of the time over these links, simulated",
                                  100 * run.compute_utilization));
  }
  line("speed", format_count(run.tokens_per_second) + " tokens/s");
  line("peak memory", format_bytes(static_cast<double>(run.peak_memory_bytes)));
  line("digest", run.digest);
  return text;
}

std::string describe_tensorboard(const fs::path& file) {
  struct Tag {
    int64_t values = 0;
    events::TensorBoardScalar last;
  };
  const events::TensorBoardFile read = events::read_tensorboard(file);
  std::map<std::string, Tag> tags;
  for (const events::TensorBoardScalar& scalar : read.scalars) {
    Tag& tag = tags[scalar.tag];
    ++tag.values;
    tag.last = scalar;
  }
  std::string text =
      fmt::format("TensorBoard event file {}, {} values{}\n", read.file_version,
                  read.scalars.size(), read.torn ? "; the last record is incomplete" : "");
  report::Table table{{{"tag", true}, {"values"}, {"last step"}, {"last value"}}, {}};
  for (const auto& [name, tag] : tags) {
    table.rows.push_back({name, fmt::format("{}", tag.values), fmt::format("{}", tag.last.step),
                          fmt::format("{:.6g}", tag.last.value)});
  }
  return text + table.terminal();
}

}  // namespace thinwire::cli

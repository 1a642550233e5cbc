#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/checkpoint/folder_claim.h"
#include "thinwire/events/run_log.h"
#include "thinwire/method/registry.h"
#include "thinwire/report/compare.h"

namespace thinwire::report {
namespace {

bool is_finished(const fs::path& folder) { return fs::exists(folder / "summary.json"); }

bool is_begun(const fs::path& folder) { return fs::exists(folder / "recipe.toml"); }

// "at step 120 of 500, "; empty if the folder does not show it.
std::string step_reached(const fs::path& folder) {
  try {
    const int64_t steps = method::load_recipe(folder / "recipe.toml", {}).train.steps;
    const fs::path log = folder / "events.jsonl";
    const events::RunHistory history =
        fs::exists(log) ? events::read_run_log(log) : events::RunHistory();
    const int64_t step = history.steps.empty() ? 0 : history.steps.back().step;
    return fmt::format("at step {} of {}, ", step, steps);
  } catch (const Error&) {  // errors in this folder do not matter when comparing other runs
    return "";
  }
}

}  // namespace

FinishedRun load_finished_run(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw Error(fmt::format("'{}' is not a run folder: {}", folder.string(),
                            fs::exists(folder) ? "it is a file" : "there is no such folder"));
  }
  if (!is_finished(folder)) {
    throw Error(
        fmt::format("{} has no summary.json: {}", folder.string(),
                    is_begun(folder) ? "its run is not finished" : "it is not a run folder"));
  }
  return {folder, events::read_summary(folder / "summary.json")};
}

FoundRuns find_runs(std::span<const std::string> paths) {
  FoundRuns found;
  for (const std::string& path : paths) {
    if (!fs::exists(path)) throw Error(fmt::format("there is no run folder {}", path));
    try {
      if (is_finished(path)) {
        found.finished.push_back(load_finished_run(path));
      } else if (is_begun(path)) {
        found.left_out.push_back(fmt::format("{}: {}not finished", path, step_reached(path)));
      } else {
        const std::string runs = checkpoint::runs_within(
            path, {checkpoint::FolderOwner::kTrain, checkpoint::FolderOwner::kJoin});
        found.left_out.push_back(
            fmt::format("{}: not a run folder{}", path,
                        runs.empty() ? "" : "; name its runs (newest first): " + runs));
      }
    } catch (const Error& error) {
      found.left_out.emplace_back(error.what());
    }
  }
  return found;
}

}  // namespace thinwire::report

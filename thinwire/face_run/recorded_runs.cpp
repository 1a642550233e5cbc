// What runs have left in their folders (thinwire/finished_runs.h, thinwire/run_history.h).
#include <utility>

#include "thinwire/events/run_log.h"
#include "thinwire/finished_runs.h"
#include "thinwire/report/compare.h"
#include "thinwire/run_history.h"

namespace thinwire {
namespace {

FinishedRun finished_run(const report::FinishedRun& run) {
  const events::Summary& summary = run.summary;
  return {.folder = run.folder,
          .name = summary.name,
          .method = summary.method,
          .workers = summary.workers,
          .steps = summary.steps,
          .tokens = summary.tokens,
          .parameters = summary.params,
          .train_loss = summary.train_loss,
          .losses = summary.val_loss,
          .scores = summary.scores,
          .bytes_sent_per_step = summary.bytes_sent_per_worker_step,
          .bytes_received_per_step = summary.bytes_received_per_worker_step,
          .seconds = summary.seconds,
          .tokens_per_second = summary.tokens_per_second,
          .digest = summary.digest};
}

report::CurveAxis inner_axis(CurveAxis axis) {
  switch (axis) {
    case CurveAxis::kTokens:
      return report::CurveAxis::kTokens;
    case CurveAxis::kBytes:
      return report::CurveAxis::kBytes;
    case CurveAxis::kSteps:
      break;
  }
  return report::CurveAxis::kSteps;
}

}  // namespace

FoundRuns find_runs(const std::vector<std::filesystem::path>& folders) {
  const std::vector<std::string> paths(folders.begin(), folders.end());
  report::FoundRuns inner = report::find_runs(paths);
  FoundRuns found{.finished = {}, .left_out = std::move(inner.left_out)};
  for (const report::FinishedRun& run : inner.finished) found.finished.push_back(finished_run(run));
  return found;
}

LossCurve loss_curve(const std::filesystem::path& run_folder, CurveAxis axis) {
  events::PlotSeries curve = report::loss_curve(run_folder, "", inner_axis(axis));
  return {.at = std::move(curve.x), .losses = std::move(curve.y)};
}

RunHistory read_run_history(const std::filesystem::path& run_folder) {
  events::RunHistory log = events::read_run_log(run_folder / "events.jsonl");
  return {std::move(log.steps), std::move(log.evals), std::move(log.messages)};
}

}  // namespace thinwire

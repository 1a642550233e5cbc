#include "thinwire/cli/run_result.h"

#include <fmt/format.h>

#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/base/units.h"

namespace thinwire::cli {

void print_run_result(const events::Summary& summary, const std::string& folder) {
  const std::string what = events::describe_train_loss(summary);
  fmt::print(
      "{}: {}, {} tokens, training loss {}", folder, counted(summary.steps, "step"),
      format_count(static_cast<double>(summary.tokens)),
      std::isnan(summary.train_loss) ? what : fmt::format("{:.4f} ({})", summary.train_loss, what));
  for (const auto& [name, loss] : summary.val_loss)
    fmt::print(", {} loss {:.4f}", name, without_nan_sign(loss));
  for (const auto& [name, score] : summary.scores) fmt::print(", {} {:.4f}", name, score);
  fmt::print(", {}, digest {}\n", format_seconds(summary.seconds), summary.digest);
  if (summary.compute_utilization > 0) {
    fmt::print("over the simulated links: {}, {:.1f} % of it spent computing\n",
               format_seconds(summary.seconds_over_links), 100 * summary.compute_utilization);
  }
}

void report_stop(const std::string& message, bool is_rank) {
  if (is_rank) throw Error(message);
  throw Interrupted(message);
}

}  // namespace thinwire::cli

#include "thinwire/cli/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>

#include "thinwire/base/error.h"
#include "thinwire/base/interrupt.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"

namespace thinwire::cli {
namespace {

[[noreturn]] void fail(int error) {
  // SIGPIPE was ignored; else it would already have ended the process.
  if (error == EPIPE) end_by_signal(SIGPIPE);
  throw Error(fmt::format("cannot write to standard output: {}",
                          error == 0 ? "only part of it was accepted" : std::strerror(error)));
}

void flush() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (!flushed || std::ferror(stdout) != 0) fail(flushed ? 0 : errno);
}

}  // namespace

int with_checked_output(const std::function<int()>& command) {
  try {
    const int status = command();
    flush();
    return status;
  } catch (const std::system_error& error) {  // as fmt::print throws it
    if (std::ferror(stdout) != 0) fail(error.code().value());
    throw;
  }
}

void write_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail(errno);
  flush();
}

checkpoint::TensorProgress show_tensors(const std::string& label) {
  return [label, shown = std::shared_ptr<events::Progress>()](size_t done, size_t all) mutable {
    if (!shown) {
      catch_interrupts();
      shown = std::make_shared<events::Progress>(label, static_cast<int64_t>(all));
    }
    if (interrupts().any) throw Interrupted("interrupted; nothing was written");
    if (done == all) return shown.reset();  // another may be shown after it
    shown->update(static_cast<int64_t>(done), {{"", "tensors"}});
  };
}

void print_run_result(const events::Summary& summary, const std::string& folder,
                      const std::string& rows) {
  const std::string what = events::describe_train_loss(summary);
  fmt::print(
      "{}: {}, {} tokens, training loss {}", folder, counted(summary.steps, "step"),
      format_count(static_cast<double>(summary.tokens)),
      std::isnan(summary.train_loss) ? what : fmt::format("{:.4f} ({})", summary.train_loss, what));
  for (const auto& [name, loss] : summary.val_loss)
    fmt::print(", {} loss {:.4f}", name, without_nan_sign(loss));
  for (const auto& [name, score] : summary.scores) fmt::print(", {} {:.4f}", name, score);
  if (!rows.empty()) fmt::print(", losses {}", rows);
  fmt::print(", {}, digest {}\n", format_seconds(summary.seconds), summary.digest);
  if (summary.compute_utilization > 0) {
    fmt::print("over the simulated links: {}, {:.1f} % of it spent computing\n",
               format_seconds(summary.seconds_over_links), 100 * summary.compute_utilization);
  }
}

void report_stop(const std::string& message, bool is_rank) { throw Interrupted(message, is_rank); }

}  // namespace thinwire::cli

#include "thinwire/hosts/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/memory.h"
#include "thinwire/base/units.h"
#include "thinwire/bench/speed.h"
#include "thinwire/hosts/access.h"
#include "thinwire/links/links.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/method.h"
#include "thinwire/method/registry.h"
#include "thinwire/train/resolve.h"
#include "thinwire/train/site.h"

namespace thinwire::hosts {
namespace {

constexpr uint32_t kProbeBytes = 128 << 10;
constexpr size_t kMaxProbes = 64;  // at once
constexpr int kDelayProbes = 5;
constexpr double kMinTimedSeconds = 0.3;  // to measure a rate
constexpr double kClockToleranceSeconds = 60;

struct Probe {
  uint32_t sent = 0;    // bytes of padding
  uint32_t wanted = 0;  // bytes of the answer
};

Bytes probe_body(const Probe& probe) {
  Bytes body;
  ByteWriter(body).put(probe.wanted);
  body.resize(body.size() + probe.sent);
  return body;
}

struct Timed {
  double seconds = 0;
  double coordinator_time = 0;
};

Result<Timed> time_probes(RequestClient& client, const Probe& probe, size_t count) {
  const Stopwatch watch;
  const auto answers = client.ask_all(
      RequestKind::kProbe, std::vector<Bytes>(count, probe_body(probe)), kTimeoutSeconds);
  if (!answers) return tl::unexpected(answers.error());
  ByteReader in(answers->back());
  const auto time = in.get<double>();
  if (!in.ok() || !std::isfinite(time)) {
    return fail(FailureKind::kCorruptPayload, "the coordinator's answer to a probe is malformed");
  }
  return Timed{watch.seconds(), time};
}

// Bytes a second in the direction that the probe loads; at most `limit_bit_s`, unless that is 0.
Result<double> rate_of(RequestClient& client, const Probe& probe, double round_trip_s,
                       double limit_bit_s) {
  const double limit = limit_bit_s > 0 ? limit_bit_s / 8 : std::numeric_limits<double>::infinity();
  for (size_t count = 4;; count *= 2) {
    const auto timed = time_probes(client, probe, count);
    if (!timed) return tl::unexpected(timed.error());
    const double seconds = std::max(timed->seconds - round_trip_s, 1e-6);
    const double rate = static_cast<double>(count) * kProbeBytes / seconds;
    const bool is_enough = timed->seconds >= kMinTimedSeconds || count >= kMaxProbes;
    if (is_enough || limit_bit_s > 0) return std::min(rate, limit);
  }
}

std::string rate(double bytes_s) { return format_bytes(bytes_s) + "/s"; }

std::string describe(const LinkReport& link) {
  return fmt::format("link: {} round trip, {} up, {} down; clock {} {}",
                     format_seconds(link.round_trip_s), rate(link.up_bytes_s),
                     rate(link.down_bytes_s), format_seconds(std::abs(link.clock_ahead_s)),
                     link.clock_ahead_s >= 0 ? "ahead" : "behind");
}

void add_warnings(SelfCheck& check, const config::Recipe& recipe) {
  const auto warn = [&](std::string text) { check.warnings.push_back(std::move(text)); };
  if (check.link && std::abs(check.link->clock_ahead_s) > kClockToleranceSeconds) {
    const bool ahead = check.link->clock_ahead_s > 0;
    warn(fmt::format(
        "this machine's clock is {} {} the coordinator's: certificates {}; set it (timedatectl "
        "set-ntp true)",
        format_seconds(std::abs(check.link->clock_ahead_s)), ahead ? "ahead of" : "behind",
        ahead ? "and tokens may count as expired" : "may count as not yet valid"));
  }
  if (std::string crowded = train::thread_warning(recipe, check.cores); !crowded.empty()) {
    warn(std::move(crowded));
  }
  const bool is_waited_for = check.sent_bytes > 0 && check.step_s > 0;
  if (is_waited_for && check.transfer_s > std::max(check.step_s, 1e-3)) {
    warn(fmt::format(
        "the link takes {} for what {} exchanges in a step, which takes {} to compute "
        "here: the others will wait for this member, or continue without it",
        format_seconds(check.transfer_s), recipe.sync.method, format_seconds(check.step_s)));
  }
}

// The ranks of a site share the optimizer's state.
void share_state(const config::Recipe& recipe, int ranks, MemoryNeed& need) {
  if (recipe.train.offload || !method::shares_steps(recipe)) return;
  const method::SharedState state = method::shared_state(recipe, method::tensors_of(recipe), ranks);
  const auto part = std::ranges::find(need.parts, method::kStatePart, &MemoryPart::name);
  part->bytes -= state.all - state.largest;
}

MemoryNeed memory_need(const config::Recipe& recipe, const SelfCheckOptions& options) {
  constexpr int kCompared = 3;  // two gradients and what was sent
  MemoryNeed need = method::run_memory(recipe, 1);
  if (!options.audits && options.ranks == 1) return need;
  double elements = 0;
  for (const TensorSpec& tensor : method::tensors_of(recipe)) {
    elements += static_cast<double>(tensor.count());
  }
  const double weights = sizeof(float) * elements;
  if (options.audits) need.parts.push_back({"what is compared", kCompared * weights});
  if (options.ranks > 1) {
    share_state(recipe, options.ranks, need);
    constexpr double kSent = train::kSentAtOnce;
    // With an adapter frozen weights are sent, too.
    const double sent = method::is_adapted(recipe.adapter) ? kSent : std::min(weights, kSent);
    need.parts.push_back({"weights for the other ranks", options.ranks * sent});
  }
  return need;
}

}  // namespace

Result<LinkReport> measure_link(RequestClient& client, const links::Link& limits) {
  LinkReport report;
  std::optional<Timed> quickest;
  for (int i = 0; i < kDelayProbes; ++i) {
    const auto timed = time_probes(client, {}, 1);
    if (!timed) return tl::unexpected(timed.error());
    if (!quickest || timed->seconds < quickest->seconds) quickest = *timed;
    report.clock_ahead_s = unix_seconds() - timed->seconds / 2 - timed->coordinator_time;
  }
  report.round_trip_s = quickest->seconds;
  const auto up = rate_of(client, {kProbeBytes, 0}, report.round_trip_s, limits.up_bit_s);
  if (!up) return tl::unexpected(up.error());
  const auto down = rate_of(client, {0, kProbeBytes}, report.round_trip_s, limits.down_bit_s);
  if (!down) return tl::unexpected(down.error());
  report.up_bytes_s = *up;
  report.down_bytes_s = *down;
  return report;
}

void check_cap(const config::Recipe& recipe, const SelfCheckOptions& options) {
  const MemoryNeed need = memory_need(recipe, options);
  if (options.cap_bytes <= 0 || need.total() <= options.cap_bytes) return;
  throw UsageError(fmt::format("--memory: {}, more than the {} allowed here", need.describe(),
                               format_bytes(options.cap_bytes)));
}

SelfCheck check_self(const config::Recipe& recipe, const std::optional<LinkReport>& link,
                     const SelfCheckOptions& options) {
  check_cap(recipe, options);
  SelfCheck check;
  check.link = link;
  const MemoryNeed need = memory_need(recipe, options);
  check.needed_bytes = need.total();
  check.free_bytes = machine_memory().available;
  check.cores = cores_here();
  if (std::string warning = check_memory(need); !warning.empty()) {
    check.warnings.push_back(std::move(warning));
  }
  const auto workers = static_cast<int>(recipe.train.workers);
  const method::Traffic traffic = method::hosted_traffic(
      method::find_method(recipe.sync.method).traffic(recipe, method::tensors_of(recipe), workers),
      recipe.sync.sums, workers);
  check.sent_bytes = traffic.sent_bytes;
  check.received_bytes = traffic.received_bytes;
  if (options.audits) {
    check.sent_bytes = 0;
    check.received_bytes += traffic.sent_bytes;  // what it audits
  }
  if (link) {
    const links::Link line{8 * link->up_bytes_s, 8 * link->down_bytes_s, link->round_trip_s / 2, 0};
    check.transfer_s =
        links::stored_seconds(line, check.sent_bytes, check.received_bytes, traffic.round_trips);
  }
  if (!method::is_external(recipe)) {
    config::Recipe drawn = recipe;
    drawn.train.init.clear();  // other weights take as long
    const bench::SpeedOptions timing{
        .steps = options.steps, .warmup = 1, .tokens = {}, .message = options.message};
    check.step_s = bench::measure_speed(drawn, timing).median_seconds();
  }
  add_warnings(check, recipe);
  return check;
}

std::vector<std::string> describe(const SelfCheck& check, const config::Recipe& recipe) {
  std::vector<std::string> lines = {
      check.link ? describe(*check.link) : "link: not measured; the run has a mailbox",
      fmt::format(
          "memory: about {} needed{}", format_bytes(check.needed_bytes),
          check.free_bytes > 0 ? fmt::format(", {} free", format_bytes(check.free_bytes)) : ""),
      fmt::format("cores: {}; {} compute{} (train.threads)", check.cores.describe(),
                  counted(recipe.train.threads, "thread"), recipe.train.threads == 1 ? "s" : ""),
      check.step_s > 0
          ? fmt::format("speed: a step takes {} here with {}, {}", format_seconds(check.step_s),
                        counted(recipe.train.threads, "thread"), name_of(recipe.train.precision))
          : "speed: not measured; only the member's program has the run's model",
      fmt::format(
          "the run: {} of {} among {}; a step sends {} and receives {}{}",
          counted(recipe.train.steps, "step"), recipe.sync.method,
          counted(recipe.train.workers, "worker"), format_bytes(check.sent_bytes),
          format_bytes(check.received_bytes),
          check.link ? fmt::format(", {} over this link", format_seconds(check.transfer_s)) : "")};
  for (const std::string& warning : check.warnings) lines.push_back("warning: " + warning);
  return lines;
}

}  // namespace thinwire::hosts

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/bench/speed.h"
#include "thinwire/cli/plan/plan.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::cli {
namespace {

// A machine of any age does this much in a second or two.
constexpr double kStepFlops = 5e10;
constexpr double kMaxFlops = 5e11;
constexpr int64_t kSteps = 2;
constexpr int64_t kWarmup = 1;

// The recipe with as many rows per step as take about a second.
config::Recipe short_step(config::Recipe recipe, std::string_view options) {
  config::TrainSection& train = recipe.train;
  const double row = method::train_flops_per_token(recipe) * static_cast<double>(train.sequence);
  if (row > kMaxFlops) {
    throw UsageError(
        fmt::format("the speed of a step cannot be measured in a few seconds, because a row of {} "
                    "tokens takes {}FLOP; give {}",
                    train.sequence, format_count(row), options));
  }
  const int64_t share = (train.batch + train.workers - 1) / train.workers;
  train.batch = std::clamp<int64_t>(static_cast<int64_t>(kStepFlops / row), 1, share);
  train.microbatch = std::min(train.microbatch, train.batch);
  train.workers = 1;
  recipe.sync = {};
  recipe.schedule = {};
  return recipe;
}

}  // namespace

double flops_here(const config::Recipe& recipe, bool hosts, std::string_view options) {
  config::Recipe measured = short_step(recipe, options);
  if (hosts && !recipe.given.contains("train.threads")) measured.train.threads = available_cores();
  events::print_message(
      fmt::format("measuring the speed of a step here with {}, where {} may be used; to plan for "
                  "another machine, give {}",
                  counted(measured.train.threads, "thread"), cores_here().describe(), options));
  try {
    events::Progress shown("measuring", kSteps + kWarmup);
    const auto show = [&](int64_t done, int64_t) { shown.update(done, {{"", "steps"}}); };
    const bench::SpeedResult speed =
        bench::measure_speed(measured, {.steps = kSteps,
                                        .warmup = kWarmup,
                                        .tokens = {},
                                        .progress = show,
                                        .message = events::print_message});
    const double flops = speed.tokens_per_second() * speed.flops_per_token;
    events::print_message(fmt::format("{}FLOP/s", format_count(flops)));
    return flops;
  } catch (const UsageError& error) {
    throw UsageError(
        fmt::format("the speed of a step cannot be measured: {}; give {}", error.what(), options));
  }
}

}  // namespace thinwire::cli

#include "thinwire/method/memory/updates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/method/allreduce.h"
#include "thinwire/method/gradient_sums.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/memory/slabs.h"
#include "thinwire/method/method.h"
#include "thinwire/method/optimizers/optimizers.h"
#include "thinwire/method/registry.h"
#include "thinwire/method/within.h"

namespace thinwire::method {
namespace {

using config::ClipBy;
using config::UpdateTime;

// The method that takes a step's gradients, and the field that names it.
struct GradientMethod {
  const Method& method;
  std::string_view field;
};

GradientMethod gradient_method(const config::Recipe& recipe) {
  if (recipe.sync.clustered()) return {find_method(recipe.sync.within), "sync.within"};
  const Method& method = find_method(recipe.sync.method);
  return {method.local_updates ? kAllReduce : method, "sync.method"};
}

std::string methods_that_stream() {
  std::vector<std::string_view> names;
  for (const Method* method : all_methods()) {
    if (method->streams || method->local_updates) names.push_back(method->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void check_method(const config::Recipe& recipe) {
  const GradientMethod takes = gradient_method(recipe);
  if (takes.method.streams) return;
  const std::string others = recipe.sync.clustered() ? "allreduce" : methods_that_stream();
  throw UsageError(
      fmt::format("[train] update = \"layer\" needs a method that takes gradients one by one, got "
                  "{} = \"{}\", which compresses a step's whole gradient; choose {} = {}, or "
                  "train.update = \"step\"",
                  takes.field, takes.method.name, takes.field, others));
}

// The alternative that a projecting optimizer offers.
std::string_view or_projected(const config::Recipe& recipe) {
  const bool able = find_optimizer(recipe.optim.method).subspace != nullptr;
  return able ? "optim.gradients = \"projected\", " : "";
}

void check_clipping(const config::Recipe& recipe) {
  if (recipe.optim.clip == 0 || recipe.optim.clip_by != ClipBy::kStep) return;
  throw UsageError(fmt::format(
      "[train] update = \"layer\" changes weights before the norm of the whole gradient is known, "
      "got optim.clip = {} with optim.clip_by = \"step\"; choose optim.clip_by = \"previous\" or "
      "\"tensor\", {}optim.clip = 0, or train.update = \"step\"",
      recipe.optim.clip, or_projected(recipe)));
}

void check_passes(const config::Recipe& recipe) {
  const config::TrainSection& train = recipe.train;
  const int64_t rows = (train.batch + train.workers - 1) / train.workers;
  constexpr std::string_view kWhy =
      "[train] update = \"layer\" takes a worker's rows of a step in one pass, since adding up the "
      "gradients of several would hold all of them,";
  if (train.microbatch != 0 && train.microbatch < rows) {
    throw UsageError(
        fmt::format("{} got microbatch = {} of {} rows; choose {}train.microbatch = 0, a smaller "
                    "train.batch, model.recompute = \"block\" to save memory otherwise, or "
                    "train.update = \"step\"",
                    kWhy, train.microbatch, rows, or_projected(recipe)));
  }
  if (recipe.sync.shares != config::RowShares::kEqual) {
    throw UsageError(
        fmt::format("{} got sync.shares = \"{}\", by which it may be given more rows than a pass "
                    "takes; choose sync.shares = \"equal\" or train.update = \"step\"",
                    kWhy, name_of(recipe.sync.shares)));
  }
  if (!recipe.sync.absent.empty()) {
    throw UsageError(fmt::format(
        "{} got sync.absent = [\"{}\"], whose rows others take besides their own; leave it out, or "
        "choose train.update = \"step\"",
        kWhy, fmt::join(recipe.sync.absent, "\", \"")));
  }
}

bool projects(const config::Recipe& recipe) {
  return recipe.optim.gradients == config::GradientCoordinates::kProjected;
}

double largest_sum(const std::vector<int64_t>& sums) {
  return sizeof(float) * static_cast<double>(*std::ranges::max_element(sums));
}

bool clips_by_previous(const config::OptimSection& optim) {
  return optim.clip > 0 && optim.clip_by == ClipBy::kPrevious;
}

}  // namespace

void check_updates(const config::Recipe& recipe) {
  const GradientMethod takes = gradient_method(recipe);
  const config::OptimSection& optim = recipe.optim;
  if (optim.clip > 0 && optim.clip_by != ClipBy::kStep && !takes.method.streams) {
    throw UsageError(
        fmt::format("[optim] clip_by = \"{}\" contradicts {} = \"{}\", which clips the whole "
                    "gradient of a step; choose clip_by = \"step\"",
                    name_of(optim.clip_by), takes.field, takes.method.name));
  }
  check_projected(recipe);
  check_slabs(recipe);
  if (recipe.train.update == UpdateTime::kStep) return;
  check_method(recipe);
  // What is added up or clipped as a whole is kept, if it is no larger than the projections.
  if (gradient_store(recipe) == GradientStore::kProjected) return;
  check_clipping(recipe);
  check_passes(recipe);
}

int64_t members_of_a_step(const config::Recipe& recipe) {
  const auto workers = static_cast<int>(recipe.train.workers);
  if (!find_method(recipe.sync.method).local_updates) return workers;
  const Clusters clusters = clusters_of(recipe.sync, workers);
  int largest = 1;
  for (int cluster = 0; cluster < clusters.count; ++cluster) {
    largest = std::max(largest, clusters.size(cluster));
  }
  return largest;
}

double gradient_bytes(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                      const PassMemory& pass) {
  const bool streamed = gradient_store(recipe) == GradientStore::kStreamed;
  // One group is summed while another is filled.
  const double groups = streamed && members_of_a_step(recipe) > 1
                            ? 2 * largest_sum(gradient_sums(recipe, tensors, RunKind::kJob))
                            : 0;
  if (projects(recipe)) return projected_gradient_bytes(recipe, tensors) + groups;
  if (streamed) return pass.streamed_gradients + groups;
  return sizeof(float) * static_cast<double>(arena_elements(tensors));
}

double clipping_bytes(const config::Recipe& recipe) {
  return clips_by_previous(recipe.optim) ? sizeof(float) : 0;
}

}  // namespace thinwire::method

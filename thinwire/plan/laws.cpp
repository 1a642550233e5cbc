#include "thinwire/plan/laws.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "thinwire/base/file.h"
#include "thinwire/config/table_list.h"

namespace thinwire::plan {
namespace {

constexpr const char* kTable = "law";
// Keeps a law's loss finite for every model.
constexpr double kMostScale = 1e150;
constexpr double kMostExponent = 2;
constexpr double kMostPerStep = 1e6;

// Parameters, and the loss of eager updates minus DiLoCo's.
constexpr std::array<std::pair<double, double>, 6> kEagerLoss = {
    {{35e6, 0.08}, {100e6, 0.06}, {200e6, 0.05}, {300e6, 0.05}, {500e6, 0.03}, {1e9, 0.01}}};
constexpr double kSecondLateStep = 0.04;
constexpr double kDelayedLoss = 0.34;

const MethodLaw* find_law(std::span<const MethodLaw> laws, std::string_view method) {
  const auto found = std::ranges::find(laws, method, &MethodLaw::method);
  return found == laws.end() ? nullptr : &*found;
}

}  // namespace

double MethodLaw::loss(double parameters, double local_steps) const {
  return loss_per_local_step * local_steps + PowerLaw{scale, exponent}.loss(parameters);
}

void MethodLaw::describe(config::Fields& fields) {
  fields.text("method", method, "The synchronisation method whose runs the law was fitted to.");
  fields.number_above("scale", scale, "parameters", 0, kMostScale, "Nc of (Nc / N)^alpha.");
  fields.number_above("exponent", exponent, "", 0, kMostExponent, "alpha.");
  fields.number("loss_per_local_step", loss_per_local_step, "nats", -kMostPerStep, kMostPerStep,
                "alpha_s: what each local step between exchanges adds.");
}

std::vector<MethodLaw> load_laws(const std::filesystem::path& file) {
  return config::load_tables<MethodLaw>(file, kTable);
}

void save_laws(const std::filesystem::path& file, std::span<const MethodLaw> laws) {
  std::string text;
  for (MethodLaw law : laws) {
    text += text.empty() ? "" : "\n";
    text += config::print_table(kTable, law);
  }
  write_file(file, text);
}

LossLaws with_own(LossLaws laws, std::span<const MethodLaw> own) {
  if (const MethodLaw* law = find_law(own, "allreduce")) {
    laws.all_reduce = {law->scale, law->exponent};
  }
  for (const char* method : {"diloco", "local_sgd"}) {
    if (const MethodLaw* law = find_law(own, method)) {
      laws.local_sgd = {law->scale, law->exponent};
      laws.loss_per_local_step = law->loss_per_local_step;
    }
  }
  return laws;
}

ExpectedLoss expected_loss(std::span<const MethodLaw> own, std::string_view method,
                           double local_steps, double parameters) {
  if (const MethodLaw* law = find_law(own, method)) {
    return {law->loss(parameters, local_steps), "own runs"};
  }
  const LossLaws laws = with_own({}, own);
  if (local_steps > 1) return {local_loss(laws, parameters, local_steps), "local SGD's law"};
  const double loss = laws.all_reduce.loss(parameters);
  return {loss, method == "allreduce" ? "all-reduce's law" : "no law; as all-reduce"};
}

double late_loss(method::Overlap overlap, int64_t depth, double parameters) {
  if (overlap == method::Overlap::kDelayed) return kDelayedLoss;
  if (overlap != method::Overlap::kEager) return 0;
  const double second = depth > 1 ? kSecondLateStep : 0;
  const auto* const after = std::ranges::find_if(
      kEagerLoss, [&](const auto& entry) { return entry.first >= parameters; });
  if (after == kEagerLoss.begin()) return after->second + second;
  if (after == kEagerLoss.end()) return kEagerLoss.back().second + second;
  const auto& [size, loss] = *(after - 1);
  const double share = std::log(parameters / size) / std::log(after->first / size);
  return loss + share * (after->second - loss) + second;
}

}  // namespace thinwire::plan

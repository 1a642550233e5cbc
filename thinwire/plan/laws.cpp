#include "thinwire/plan/laws.h"

#include <algorithm>

#include "thinwire/base/file.h"
#include "thinwire/config/table_list.h"

namespace thinwire::plan {
namespace {

constexpr const char* kTable = "law";
// Keeps a law's loss finite for every model.
constexpr double kMaxScale = 1e150;
constexpr double kMaxExponent = 2;
constexpr double kMaxPerStep = 1e6;

}  // namespace

double MethodLaw::loss(double parameters, double local_steps) const {
  return loss_per_local_step * local_steps + PowerLaw{scale, exponent}.loss(parameters);
}

void MethodLaw::describe(config::Fields& fields) {
  fields.text("method", method, "The synchronisation method whose runs the law was fitted to.");
  fields.number_above("scale", scale, "parameters", 0, kMaxScale, "Nc of (Nc / N)^alpha.");
  fields.number_above("exponent", exponent, "", 0, kMaxExponent, "alpha.");
  fields.number("loss_per_local_step", loss_per_local_step, "nats", -kMaxPerStep, kMaxPerStep,
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

const MethodLaw* find_law(std::span<const MethodLaw> laws, std::string_view method) {
  const auto found = std::ranges::find(laws, method, &MethodLaw::method);
  return found == laws.end() ? nullptr : &*found;
}

}  // namespace thinwire::plan

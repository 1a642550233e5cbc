// Scaling laws fitted to the user's own runs (thinwire plan fit --save), which take the place of
// the scaling-law paper's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/fields.h"
#include "thinwire/plan/scaling.h"

namespace thinwire::plan {

// A table [[law]] of a file of constants: loss = loss_per_local_step s + (scale / N)^exponent.
struct MethodLaw final : config::SectionOf<MethodLaw> {
  std::string method;  // a value of sync.method
  double scale = 0;
  double exponent = 0;
  double loss_per_local_step = 0;
  double loss(double parameters, double local_steps) const;
  void describe(config::Fields& fields) override;
};

// Throws UsageError naming file, line and field.
std::vector<MethodLaw> load_laws(const std::filesystem::path& file);
// Replaces the file's content. Appears whole or not at all.
void save_laws(const std::filesystem::path& file, std::span<const MethodLaw> laws);

// The paper's laws, with those for "allreduce" and "local_sgd" (or "diloco") replaced by the
// user's.
LossLaws with_own(LossLaws laws, std::span<const MethodLaw> own);

// The law of a method; null if there is none.
const MethodLaw* find_law(std::span<const MethodLaw> laws, std::string_view method);

}  // namespace thinwire::plan

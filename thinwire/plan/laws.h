// Which scaling law tells the loss a method reaches: laws fitted to own runs where there are some
// (thinwire plan fit --save), else those of the scaling-law paper.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/fields.h"
#include "thinwire/method/diloco.h"
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

// The paper's laws with those of "allreduce" and "local_sgd" (or "diloco") replaced by own ones.
LossLaws with_own(LossLaws laws, std::span<const MethodLaw> own);

struct ExpectedLoss {
  double nats = 0;    // a token
  std::string basis;  // which law, for people
};

// Of a method that synchronises every `local_steps` steps, for N parameters without embeddings. A
// method without an own law follows the paper's: all-reduce's where it synchronises every step,
// else local SGD's.
ExpectedLoss expected_loss(std::span<const MethodLaw> own, std::string_view method,
                           double local_steps, double parameters);

// Nats that outer steps cost where workers' differences arrive an outer step late, or two
// (`depth`): 0 but for kDelayed and kEager. Eager at H = 30 by table 6 of the eager-updates paper
// (arXiv 2502.12996), interpolated in the logarithm of the parameters; the others by its table 2,
// of 500 M parameters.
double late_loss(method::Overlap overlap, int64_t depth, double parameters);

}  // namespace thinwire::plan

// Which scaling law predicts the loss of a method: laws fitted to the user's own runs if there are
// any (thinwire plan fit --save), else those of the scaling-law paper.
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

// The paper's laws, with those for "allreduce" and "local_sgd" (or "diloco") replaced by the
// user's.
LossLaws with_own(LossLaws laws, std::span<const MethodLaw> own);

struct ExpectedLoss {
  double nats = 0;    // per token
  std::string basis;  // which law, to be shown
};

// For a method that synchronises every `local_steps` steps and N parameters without embeddings. A
// method without a law of the user's follows the paper's: that of all-reduce if it synchronises
// every step, else that of local SGD.
ExpectedLoss expected_loss(std::span<const MethodLaw> own, std::string_view method,
                           double local_steps, double parameters);

// The loss in nats caused by pseudo-gradients that arrive one outer step late, or two (`depth`): 0
// except for kDelayed and kEager. kEager is from table 6 of the eager-updates paper (arXiv
// 2502.12996, H = 30), interpolated in the logarithm of the parameters; the others are from its
// table 2, at 500 M parameters.
double late_loss(method::Overlap overlap, int64_t depth, double parameters);

}  // namespace thinwire::plan

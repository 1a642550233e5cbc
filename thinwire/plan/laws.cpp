#include "thinwire/plan/laws.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/config/table_list.h"

namespace thinwire::plan {
namespace {

Interval around(double value, double deviation, size_t freedom) {
  const double reach = student_factor(freedom) * deviation;
  return {value - reach, value + reach};
}

}  // namespace

double student_factor(size_t freedom) {
  constexpr std::array kFactors = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                   2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                   2.131,  2.120, 2.110, 2.101, 2.093, 2.086};
  if (freedom == 0) return 0;
  if (freedom <= kFactors.size()) return kFactors[freedom - 1];
  return 1.96 + 2.4 / static_cast<double>(freedom);  // to 0.01
}

Interval LineFit::slope_interval() const {
  return around(slope, deviation / std::sqrt(spread_x), points - 2);
}

Interval LineFit::next(double x) const {
  const double from = x - mean_x;
  const double share = 1 + 1 / static_cast<double>(points) + from * from / spread_x;
  return around(at(x), deviation * std::sqrt(share), points - 2);
}

LineFit fit_line(std::span<const Point> points) {
  LineFit fit;
  fit.points = points.size();
  const auto count = static_cast<double>(points.size());
  double mean_y = 0;
  for (const Point& point : points) {
    fit.mean_x += point.x / count;
    mean_y += point.y / count;
  }
  double product = 0;
  for (const Point& point : points) {
    const double from = point.x - fit.mean_x;
    fit.spread_x += from * from;
    product += from * (point.y - mean_y);
  }
  fit.slope = product / fit.spread_x;
  fit.intercept = mean_y - fit.slope * fit.mean_x;
  double squares = 0;
  for (const Point& point : points) squares += std::pow(point.y - fit.at(point.x), 2);
  if (points.size() > 2) fit.deviation = std::sqrt(squares / (count - 2));
  return fit;
}

namespace {

constexpr const char* kTable = "law";
// Keeps a law's loss finite for every model.
constexpr double kMaxScale = 1e150;
constexpr double kMaxExponent = 2;
constexpr double kMaxFloor = 100;
constexpr double kMaxPerStep = 1e6;

}  // namespace

double MethodLaw::loss(double parameters, double tokens, double local_steps) const {
  return loss_per_local_step * local_steps + law.loss(parameters, tokens);
}

void MethodLaw::describe(config::Fields& fields) {
  fields.text("method", method, "The synchronisation method whose runs the law was fitted to.");
  fields.number_above("scale", law.scale, "parameters", 0, kMaxScale, "Nc of (Nc / N)^alpha.");
  fields.number_above("exponent", law.exponent, "", 0, kMaxExponent, "alpha.");
  fields.number("floor", law.floor, "nats", 0, kMaxFloor,
                "E: what no size and no number of tokens takes away.");
  fields.number("tokens_scale", law.tokens_scale, "tokens", 0, kMaxScale,
                "Dc of (Dc / D)^beta; 0 leaves the term out.");
  fields.number("tokens_exponent", law.tokens_exponent, "", 0, kMaxExponent, "beta.");
  fields.number("loss_per_local_step", loss_per_local_step, "nats", -kMaxPerStep, kMaxPerStep,
                "alpha_s: what each local step between exchanges adds.");
}

std::vector<MethodLaw> load_laws(const std::filesystem::path& file) {
  std::vector<MethodLaw> laws = config::load_tables<MethodLaw>(file, kTable);
  for (const MethodLaw& law : laws) {
    if ((law.law.tokens_scale == 0) == (law.law.tokens_exponent == 0)) continue;
    throw UsageError(fmt::format(
        "{}: [[law]] of {}: tokens_scale and tokens_exponent must both be given or both be 0, got "
        "{} and {}",
        file.string(), law.method, law.law.tokens_scale, law.law.tokens_exponent));
  }
  return laws;
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
    laws.all_reduce = law->law;
  }
  for (const char* method : {"diloco", "local_sgd"}) {
    if (const MethodLaw* law = find_law(own, method)) {
      laws.local_sgd = law->law;
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

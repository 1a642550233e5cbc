#include "thinwire/eval/class_metrics.h"

#include <algorithm>
#include <cmath>

namespace thinwire::eval {
namespace {

double ratio(double of, double to) { return to == 0 ? 0 : of / to; }

}  // namespace

void ClassCounts::add(int64_t truth, int64_t predicted) {
  ++texts;
  right += truth == predicted ? 1 : 0;
  true_positive += truth == 1 && predicted == 1 ? 1 : 0;
  false_positive += truth != 1 && predicted == 1 ? 1 : 0;
  false_negative += truth == 1 && predicted != 1 ? 1 : 0;
}

void ClassCounts::add(const ClassCounts& other) {
  classes = std::max(classes, other.classes);
  texts += other.texts;
  right += other.right;
  true_positive += other.true_positive;
  false_positive += other.false_positive;
  false_negative += other.false_negative;
}

std::vector<std::pair<std::string, double>> ClassCounts::metrics() const {
  std::vector<std::pair<std::string, double>> all = {
      {"acc", static_cast<double>(right) / static_cast<double>(texts)}};
  if (classes != 2) return all;
  const auto tp = static_cast<double>(true_positive), fp = static_cast<double>(false_positive);
  const auto fn = static_cast<double>(false_negative);
  const double tn = static_cast<double>(texts) - tp - fp - fn;
  all.emplace_back("f1", ratio(2 * tp, 2 * tp + fp + fn));
  all.emplace_back(
      "mcc", ratio(tp * tn - fp * fn, std::sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))));
  return all;
}

int64_t likeliest_class(std::span<const float> logits) {
  return std::ranges::max_element(logits) - logits.begin();
}

double class_loss(std::span<const float> logits, int64_t truth) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum) - logits[static_cast<size_t>(truth)];
}

}  // namespace thinwire::eval

// The loss of pairs of answers, of which one is preferred: DPO (Rafailov et al. 2023, arXiv
// 2305.18290) with label smoothing (Mitchell 2023, "A note on DPO with noisy preferences"), or IPO
// (Azar et al. 2023, arXiv 2310.12036). With h = (log p(chosen) - reference(chosen)) -
// (log p(rejected) - reference(rejected)), label smoothing e and s the sigmoid, a pair's loss is
//   sigmoid  -(1 - e) log s(beta h) - e log s(-beta h)
//   ipo      (h - 1 / (2 beta))^2, of log-likelihoods per token, as TRL's
// and the reward of an answer is beta (log p - reference).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/config/sections.h"
#include "thinwire/model/model.h"
#include "thinwire/train/collector.h"

namespace thinwire::train {

// Log-likelihoods of a pair's answers after their prompt, in nats.
struct PairLikelihoods {
  double chosen = 0;
  double rejected = 0;
  bool operator==(const PairLikelihoods&) const = default;
};

// Calls visit(chosen, rejected) with the documents of each pair of a batch, in order. The documents
// of a row are those of its pairs and, if it is not full, one of padding.
template <typename Visit>
void for_each_pair(const model::Batch& batch, const Visit& visit) {
  const std::vector<model::Document>& documents = batch.documents();
  const auto row = [&](size_t i) { return documents[i].first / batch.sequence(); };
  for (size_t i = 0; i + 1 < documents.size();) {
    const bool pair = row(i) == row(i + 1);
    if (pair) visit(i, i + 1);
    i += pair ? 2 : 1;
  }
}

// The number of pairs in rows of `sequence` positions, given where documents begin (RowMarks).
size_t pairs_in(std::span<const uint8_t> begins, int64_t sequence);

// The sum of the losses of the pairs of one or several passes.
class PairLoss final : public model::DocumentLoss {
 public:
  // reference: of the pairs of all passes, in order. The section must outlive this.
  PairLoss(const config::PreferenceSection& preference, std::vector<PairLikelihoods> reference)
      : preference_(preference), reference_(std::move(reference)) {}

  // Throws Error for more pairs than the reference has.
  double form(const model::Batch& batch, std::span<const double> losses,
              std::span<float> factors) override;

  // The sums of the passes so far.
  const PairSums& sums() const { return sums_; }
  // Starts them anew.
  PairSums take_sums() { return std::exchange(sums_, {}); }
  // Adds those of pairs that were computed elsewhere.
  void add(const PairSums& others) { sums_.add(others); }
  // The reference of the pairs of later passes.
  std::span<const PairLikelihoods> left() const { return std::span(reference_).subspan(next_); }

 private:
  const config::PreferenceSection& preference_;
  const std::vector<PairLikelihoods> reference_;
  size_t next_ = 0;  // of reference_
  PairSums sums_;
};

// Collects the log-likelihoods of the pairs of all passes, in order. There is no loss.
class PairScores final : public model::DocumentLoss {
 public:
  double form(const model::Batch& batch, std::span<const double> losses,
              std::span<float> factors) override;

  std::vector<PairLikelihoods> scores;
};

}  // namespace thinwire::train

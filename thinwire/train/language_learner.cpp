// The learner that is a language model over the run's corpus.
#include <algorithm>
#include <numeric>
#include <utility>

#include "thinwire/base/number_tokens.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/model/registry.h"
#include "thinwire/train/corpus.h"
#include "thinwire/train/learner.h"

namespace thinwire::train {
namespace {

// Adds the texts of rows, given the logits [texts, outputs].
void add_classes(const data::RowBlock& block, int64_t sequence, std::span<const float> logits,
                 EvalPart& part) {
  std::vector<size_t> targets;
  for (size_t i = 0; i < block.weights.size(); ++i) {
    const size_t row = i / static_cast<size_t>(sequence);
    if (block.weights[i] != 0) targets.push_back(i + row + 1);
  }
  const size_t outputs = logits.size() / targets.size();
  for (size_t text = 0; text < targets.size(); ++text) {
    const auto own = logits.subspan(text * outputs, outputs);
    const auto target = std::span(block.tokens).subspan(targets[text]);
    if (outputs == 1) {
      const double truth = number_of_tokens(target), error = own[0] - truth;
      part.loss_sum += error * error;
      part.numbers.add(truth, own[0]);
      continue;
    }
    part.loss_sum += eval::class_loss(own, target[0]);
    part.classes.classes = static_cast<int64_t>(outputs);
    part.classes.add(target[0], eval::likeliest_class(own));
  }
}

class LanguageLearner final : public Learner {
 public:
  LanguageLearner(RunData data, const tensor::Layout& layout, Replica& replica)
      : data_(std::move(data)),
        replica_(replica),
        recipe_(replica.parts().recipe),
        max_rows_(method::rows_per_pass(recipe_.train)),
        placement_(model::placement_of(recipe_.train.device, device_index())),
        model_(model::make_model({method::ModelSpec(recipe_), recipe_.train.precision, layout,
                                  replica.params(), replica.threads(), max_rows_,
                                  recipe_.train.sequence, placement_, replica.frozen(),
                                  recipe_.adapter})) {}

  void refresh() override { model_->refresh(); }
  void refresh_frozen() override { model_->refresh_frozen(); }

  void read_from(int64_t step, Order order) override {
    prefetcher_.emplace(data_.rows, static_cast<uint64_t>(step), std::move(order));
  }
  uint64_t read() override {
    batch_ = prefetcher_->take();
    return batch_.rows;
  }

  void gradients(const Round& round, const StepGradients::EndGroup& completed,
                 StepPart& part) override {
    std::optional<PairLoss> pair_loss;
    if (data_.reference) {
      pair_loss.emplace(recipe_.preference,
                        data_.reference->of("train", data_.rows, rows_of(round, replica_.id())));
    }
    part.tokens = static_cast<int64_t>(batch_.rows) * recipe_.train.sequence;
    part.loss_sum = replica_.gradients({batch_.tokens,
                                        recipe_.train.sequence,
                                        max_rows_,
                                        {batch_.weights, batch_.begins},
                                        counted_a_row(round),
                                        pair_loss ? &*pair_loss : nullptr},
                                       *model_, round, completed);
    if (pair_loss) part.pairs = pair_loss->sums();
    part.uncounted = static_cast<int64_t>(std::ranges::count(batch_.weights, 0.0F));
  }

  std::vector<std::string> sets() const override {
    std::vector<std::string> names;
    for (const auto& [set, rows] : data_.validation) names.push_back(set);
    return names;
  }
  std::optional<EvalPart> evaluate(const std::string& set, const Round& round,
                                   const BeforePass& before) override;

  std::span<const RunTask> tasks() const override { return data_.tasks; }
  std::optional<std::vector<eval::MetricSum>> score(const RunTask& task, const Round& round,
                                                    const BeforePass& before) override;

  void show(RoundObserver& observer, const Round& round) override {
    observer.observe(round, *model_);
  }

 private:
  // Which of this process's devices is meant: a site counts its own ranks.
  int device_index() const { return replica_.parts().machine.site == nullptr ? replica_.id() : 0; }

  // Over all rows of the round, or over this member's where others' are not known.
  double counted_a_row(const Round& round) const {
    if (!recipe_.data.own) return train::counted_a_row(data_.rows, round.roster);
    const RoundMember own = round.own(replica_.id());
    return train::counted_a_row(data_.rows, {&own, 1});
  }

  const RunData data_;
  Replica& replica_;
  const config::Recipe& recipe_;
  const int64_t max_rows_;
  const model::Placement placement_;
  const std::unique_ptr<model::Model> model_;
  std::optional<data::Prefetcher> prefetcher_;
  data::Batch batch_;
};

std::optional<EvalPart> LanguageLearner::evaluate(const std::string& set, const Round& round,
                                                  const BeforePass& before) {
  const data::Rows& rows = data_.validation.at(set);
  const uint64_t all = evaluated_rows(recipe_.eval, rows);
  const RowRange mine = share_of(round, replica_.id(), all);
  EvalPart part{.members = round.size()};
  for (uint64_t done = 0; done < mine.count;) {
    if (!before(static_cast<double>(done) / static_cast<double>(mine.count))) return std::nullopt;
    std::vector<uint64_t> places(std::min(static_cast<uint64_t>(max_rows_), mine.count - done));
    for (uint64_t& place : places) {
      // Rows are spread over the whole set if only a part of it is used.
      place = (mine.first + done++) * rows.count() / all;
      part.tokens += rows.counted(place);
    }
    const data::RowBlock block = rows.read(places);
    const model::RowMarks marks = {block.weights, block.begins};
    if (data_.reference) {
      PairLoss loss(recipe_.preference, data_.reference->of(set, rows, places));
      part.loss_sum += model_->loss(block.tokens, std::ssize(places), marks, loss);
      part.pairs.add(loss.sums());
    } else if (rows.labelled()) {
      add_classes(block, rows.sequence(),
                  model_->class_logits(block.tokens, std::ssize(places), marks), part);
    } else {
      part.loss_sum += model_->loss(block.tokens, std::ssize(places), marks);
    }
  }
  return part;
}

std::optional<std::vector<eval::MetricSum>> LanguageLearner::score(const RunTask& task,
                                                                   const Round& round,
                                                                   const BeforePass& before) {
  struct Stopped {};
  const auto scorer = model::make_scorer({method::ModelSpec(recipe_), replica_.params(),
                                          replica_.threads(), recipe_.train.sequence, placement_});
  const RowRange mine = share_of(round, replica_.id(), task.items.items.size());
  try {
    return score_range(task, mine, *scorer, [&](double fraction) {
      if (!before(fraction)) throw Stopped();
    });
  } catch (const Stopped&) {
    return std::nullopt;
  }
}

}  // namespace

MakeLearner language_learner(RunData data, const tensor::Layout& layout) {
  return [data = std::move(data), &layout](Replica& replica) {
    return std::make_unique<LanguageLearner>(data, layout, replica);
  };
}

std::vector<uint64_t> rows_of(const Round& round, int member) {
  const RowRange range = round.own(member).rows;
  std::vector<uint64_t> rows(range.count);
  std::iota(rows.begin(), rows.end(), range.first);
  return rows;
}

}  // namespace thinwire::train

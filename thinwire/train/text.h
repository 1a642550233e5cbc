// What the workers of a process learn from: prepared texts, or, for a program's own model
// (architectures/external), rows that only the program knows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/report/opening.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/corpus.h"
#include "thinwire/train/learner.h"
#include "thinwire/train/own_learner.h"
#include "thinwire/train/reference.h"
#include "thinwire/train/run_tasks.h"

namespace thinwire::train {

// All of it is empty for an external model. Must outlive the workers.
struct TrainingText {
  std::unique_ptr<data::Vocabulary> vocabulary;
  std::optional<Corpus> corpus;
  std::vector<RunTask> tasks;
  std::shared_ptr<const Reference> reference;

  uint64_t vocabulary_digest() const { return vocabulary ? vocabulary->digest() : 0; }
  fs::path vocabulary_file() const { return vocabulary ? vocabulary->file() : fs::path(); }
  checkpoint::DataDigests digests() const {
    return corpus ? corpus->digests : checkpoint::kNoTexts;
  }
  report::TrainingRows training() const {
    if (!corpus) return {};
    return {corpus->rows.count(), corpus->rows.tokens()};
  }

  // own: the program's model; null: it has none. Both must outlive the workers.
  MakeLearner learner(const OwnModel* own, const tensor::Layout& layout) const {
    if (own != nullptr) return own_learner(*own, corpus ? &corpus->rows : nullptr);
    return language_learner({.rows = corpus->rows,
                             .validation = corpus->validation,
                             .tasks = tasks,
                             .reference = reference},
                            layout);
  }
};

}  // namespace thinwire::train

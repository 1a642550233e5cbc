// The evaluation tasks of a run (eval.tasks): read and encoded once, scored by all workers
// together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/round.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/eval/evaluate.h"
#include "thinwire/model/scorer.h"

namespace thinwire::train {

struct RunTask {
  eval::TaskItems items;
  std::vector<eval::ItemPrompts> prompts;
  std::string note;  // what train.sequence had no room for (eval::cut_note)
};

// Texts begin as convert::load_model will report for the run's checkpoints; `resumed` is the
// checkpoint that it resumes, empty for a new run. Throws UsageError for an unknown task and one
// that generates text, and Error for data that is missing, damaged, or does not fit the vocabulary
// or train.sequence.
std::vector<RunTask> read_run_tasks(const config::Recipe& recipe,
                                    const data::Vocabulary& vocabulary, const fs::path& resumed);

// The names under which a task's metrics are recorded: "arc_easy.acc".
std::vector<std::string> score_names(const RunTask& task);

// The metrics of these items of a task, in its order. progress: as for Scorer::score.
std::vector<eval::MetricSum> score_range(const RunTask& task, const RowRange& items,
                                         model::Scorer& scorer,
                                         const std::function<void(double)>& progress);

}  // namespace thinwire::train

// Classes of texts that an encoder predicts, compared with those of a task.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "thinwire/data/vocabulary.h"
#include "thinwire/eval/items.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/model/model.h"

namespace thinwire::eval {

// The logits of the classes for each of the task's texts, in their order. Texts longer than
// `longest` tokens, which the model must take in a row, lose the end of what comes before their
// last token. progress(share done) is called after each pass.
std::vector<std::vector<float>> classify(const TaskItems& task, const data::Vocabulary& vocabulary,
                                         int64_t longest, model::Model& model,
                                         const std::function<void(double)>& progress = {});

// The task's metrics. Throws Error if the task has classes that the model does not distinguish.
std::vector<MetricSum> class_metrics(const TaskItems& task,
                                     const std::vector<std::vector<float>>& logits);

}  // namespace thinwire::eval

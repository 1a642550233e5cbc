// Classes of texts, or numbers, that an encoder predicts, compared with those of a task.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "thinwire/data/vocabulary.h"
#include "thinwire/eval/items.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/model/model.h"

namespace thinwire::eval {

// The outputs for each of the task's texts, in their order: the logits of the model's `outputs`
// classes, or a number if that is 1. Texts longer than
// `longest` tokens lose the end of what comes before their last token; the model must take rows of
// longest + target_tokens(outputs) - 1. progress(share done) is called after each pass.
std::vector<std::vector<float>> classify(const TaskItems& task, const data::Vocabulary& vocabulary,
                                         int64_t longest, int64_t outputs, model::Model& model,
                                         const std::function<void(double)>& progress = {});

// The task's metrics. Throws Error if the task has classes that the model does not distinguish, or
// if only one of the two is about numbers.
std::vector<MetricSum> class_metrics(const TaskItems& task,
                                     const std::vector<std::vector<float>>& logits);

}  // namespace thinwire::eval

// The items of a task: each of its records as texts to score, as a prompt and the right plan, or as
// a text and its class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/eval/function_plan.h"
#include "thinwire/eval/task.h"

namespace thinwire::eval {

struct Choice {
  std::string context;
  std::string continuation;  // with the space before it
  int64_t characters = 0;    // of the continuation without that space
};

struct Item {
  int64_t number = 0;  // of its record, from 0
  std::vector<Choice> choices;
  int64_t answer =
      -1;  // the right choice, from 0; -1: the only choice should be the likeliest text
};

struct PlanItem {
  int64_t number = 0;  // of its record, from 0
  std::string prompt;
  FunctionPlan reference;
};

struct ClassItem {
  int64_t number = 0;  // of its record, from 0
  std::string text;
  std::optional<std::string> second;
  double truth = 0;  // its class, from 0, or number
};

struct GenerationOptions {
  std::vector<std::string> stop;
  int64_t max_tokens = 0;
};

struct TaskItems {
  std::string task;
  std::vector<std::string> metrics;
  // Items are of one of these kinds only.
  std::vector<Item> items;
  std::vector<PlanItem> plans = {};
  std::vector<ClassItem> texts = {};
  bool numbers = false;  // whether the texts have numbers, not classes
  GenerationOptions generation = {};
};

// The task's first `limit` records (0: all) in `folder`. Throws Error naming the folder or files
// that are missing, or the file and line of a record that is damaged, lacks a field, has no answer
// among its labels, or whose plan is none.
TaskItems read_items(const Task& task, const fs::path& folder, int64_t limit = 0);

}  // namespace thinwire::eval

// What a program that runs Thinwire hears of a run.
#pragma once

#include <functional>
#include <string_view>

#include "thinwire/events.h"

namespace thinwire {

// Each may be empty. They are called on threads of the run, one at a time; the run waits for them.
// An exception from a callback of an event ends the run, and the function that runs it throws it.
// Events of steps that were trained before the run was resumed come first.
struct RunCallbacks {
  std::function<void(const events::StepEvent&)> on_step;
  std::function<void(const events::EvalEvent&)> on_evaluation;
  std::function<void(const events::CheckpointEvent&)> on_checkpoint;
  // What the command line would print besides: one line of text, without the newline. Must not
  // throw.
  std::function<void(std::string_view)> on_message;
};

}  // namespace thinwire

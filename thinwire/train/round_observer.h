// Watches the weights from which the members of a round start, in a worker that follows the run.
#pragma once

#include "thinwire/base/round.h"
#include "thinwire/model/model.h"

namespace thinwire::train {

// Used by the worker's thread.
class RoundObserver {
 public:
  virtual ~RoundObserver() = default;
  // A training step is about to begin. Whether observe() is to be called.
  virtual bool wants(const Round& round) = 0;
  // The model has the weights on which replicas agree, which must not be changed.
  virtual void observe(const Round& round, model::Model& model) = 0;
};

}  // namespace thinwire::train

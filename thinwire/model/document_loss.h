// A loss that is a function of the log-likelihoods of whole documents, such as one that compares
// two answers, instead of a sum over positions.
#pragma once

#include <span>

#include "thinwire/model/batch.h"

namespace thinwire::model {

class DocumentLoss {
 public:
  virtual ~DocumentLoss() = default;

  // Called once in each pass over a batch. losses[i] is the sum over the positions of
  // batch.documents()[i] of weight * loss, in nats: minus the log-likelihood of its targets.
  // Returns the batch's loss and sets factors[i] to its derivative with respect to losses[i].
  virtual double form(const Batch& batch, std::span<const double> losses,
                      std::span<float> factors) = 0;
};

}  // namespace thinwire::model

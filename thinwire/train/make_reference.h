// Computes what a run lacks of its reference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/corpus.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/reference.h"

namespace thinwire::train {

struct ReferenceParts {
  const config::Recipe& recipe;
  const Corpus& corpus;
  const tensor::Layout& layout;  // of what is trained
  fs::path folder;               // where the files are; they need not be there
  bool writes = true;            // whether this process keeps them
  bool resumes = false;          // the run has trained: what is known belongs to it
  int threads = 1;
  // The weights that training starts from: those of a new run, which are only read, or those from
  // which a resumed one began, read again.
  std::function<StartingWeights()> start;
};

// Null unless the corpus has pairs. Reads the files; what they lack is computed with the model at
// the start and written, also from time to time meanwhile. Messages say how far it is. Throws Error
// if a resumed run lacks some and train.init no longer holds the weights that it began with.
std::shared_ptr<const Reference> make_reference(const ReferenceParts& parts);

}  // namespace thinwire::train

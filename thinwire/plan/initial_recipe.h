// A recipe to begin with: steps, batch and method from how much text there is, how long training
// may take, and on what machines (docs/recipes.md, "A first recipe"). It trains a model from
// scratch, of a size that suits them, or low-rank factors beside the matrices of one that there is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::plan {

// A trained model that a text is to tune.
struct TunedModel {
  std::string folder, vocabulary;  // train.init, data.vocabulary_model
  config::Recipe recipe;           // of tuning_fields, with the model's shape
};

struct InitialQuestion {
  std::string name;               // run.name; folders are named after it
  std::vector<std::string> text;  // data.text
  double text_bytes = 0;          // of the text, uncompressed
  config::DocumentEnd document = config::DocumentEnd::kBlankLine;
  double hours = 1;                      // that training may take; > 0
  double flops = 0;                      // FLOP/s that a member achieves; > 0
  int64_t members = 1;                   // equal ones, of one run
  double up_bit_s = 10e6;                // a member's line
  int threads = 0;                       // of a member that trains alone; 0: not known
  std::optional<TunedModel> model = {};  // none: one from scratch
};

// What a recipe that tunes the model in `folder` says of it, as fields: LoRA (Hu et al. 2021,
// arXiv 2106.09685).
std::vector<std::string> tuning_fields(const std::string& folder);

// What was chosen, and from what.
struct InitialChoice {
  int64_t vocabulary = 0;
  int64_t parameters = 0;      // that are trained
  double text_tokens = 0;      // about
  double tokens = 0;           // of the run
  bool text_is_short = false;  // it, not the time, limits the run
  double seconds = 0;          // that its training computes, about
  std::string toml = {};       // the recipe, with comments
  config::Recipe recipe = {};  // the same
};

// Throws UsageError if the text is too short to train on, or for so many members, or the time for
// the smallest model.
InitialChoice initial_recipe(const InitialQuestion& question);

}  // namespace thinwire::plan

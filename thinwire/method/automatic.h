// The numbers of fields that a recipe leaves to rules (config/automatic.h): rate, betas and warm-up
// of a language model that learns text from random weights. The rules go by the recipe alone, and
// docs/recipes.md, "Numbers by rule", names the runs that they rest on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::method {

// What the rules go by.
struct OptimizerRun {
  double tokens = 0;  // of a step, of all workers together
  double steps = 0;   // of the run
  double width = 0;   // model.hidden
};

// optim.lr, adamw.beta1 and adamw.beta2.
struct OptimizerNumbers {
  double lr = 0, beta1 = 0, beta2 = 0;
};

// Those that suit AdamW, and Muon with the AdamW that takes its rest: the rate
//
//   min(0.62, 0.16 (tokens / 256)^1/3 (10 000 / steps)^1/2) / width
//
// and averages over 0.25 steps^1/2 steps, from 10 to 100, and over steps / 100, from 20 to 1000. To
// three significant digits, so that they are the same numbers on every machine.
OptimizerNumbers numbers_for(const OptimizerRun& run);

// Sets the fields that the recipe leaves to rules, where a rule knows them.
void choose_numbers(config::Recipe& recipe);

// What such fields are: "optim.lr auto: 0.0034", one for each that a rule knows.
std::vector<std::string> automatic_numbers(const config::Recipe& recipe);

// The rule of a field of config::automatic_fields, in a sentence for the user.
std::string_view rule_of(std::string_view field);

}  // namespace thinwire::method

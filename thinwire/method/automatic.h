// The numbers of fields that a recipe leaves to rules (config/automatic.h): rate, averages and
// warm-up of a language model that learns text from random weights. The rules go by the recipe
// alone, and docs/recipes.md, "Numbers by rule", names the runs that they rest on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/recipe.h"

namespace thinwire::method {

// What the rules go by.
struct OptimizerRun {
  double tokens = 0;            // that one step of the optimizer sees
  double steps = 0;             // of the run
  double width = 0;             // model.hidden
  bool is_independent = false;  // workers take steps of their own, on their share of the tokens
};

// optim.lr, adamw.beta1, adamw.beta2, muon.momentum and schedule.warmup.
struct OptimizerNumbers {
  double lr = 0, beta1 = 0, beta2 = 0, momentum = 0, warmup = 0;
};

// The numbers that suit AdamW, and Muon with the AdamW that takes its rest: the rate
//
//   min(0.62, 0.16 (tokens / 256)^1/3 (10 000 / steps)^1/2) / width
//
// and averages over 0.25 steps^1/2 steps, from 10 to 100, and over steps / 100, from 20 to 1000,
// Muon's over 20, with a warm-up of steps / 25, at most 1000. Workers that take steps of their own
// average over more of them, because each sees fewer tokens: over steps^1/2 / 3, steps / 25 and,
// Muon's, steps^1/2 / 2; they warm up for steps / 66. Rates have three significant digits, and what
// betas and momentum lack to 1 has two, so that they are the same on every machine.
OptimizerNumbers numbers_for(const OptimizerRun& run);

// Sets the fields that the recipe leaves to rules, where a rule knows them.
void choose_numbers(config::Recipe& recipe);

// What such fields are: "optim.lr auto: 0.0034", one for each that a rule knows.
std::vector<std::string> automatic_numbers(const config::Recipe& recipe);

// The rule of a field of config::automatic_fields, in a sentence for the user.
std::string_view rule_of(std::string_view field);

}  // namespace thinwire::method

// The tokens that a run trains and evaluates on.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "thinwire/base/rng.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/rows.h"
#include "thinwire/data/token_sets.h"

namespace thinwire::train {

// Opened from recipe.data.dir; the order of the rows follows from run.seed. Throws Error for data
// that was prepared with another vocabulary.
struct Corpus {
  explicit Corpus(const config::Recipe& recipe, uint64_t vocabulary_digest)
      : sets(data::open_sets(recipe.data.dir, vocabulary_digest)),
        rows(sets.at("train"), recipe.train.sequence,
             derive_seed(static_cast<uint64_t>(recipe.run.seed), "data")) {
    for (const auto& [name, tokens] : sets) {
      digests.emplace(name, tokens.digest());
      if (name == "train") continue;
      validation.emplace(name, data::Rows::ordered(tokens, recipe.train.sequence));
    }
  }

  std::map<std::string, data::TokenSet> sets;
  data::Rows rows;
  std::map<std::string, data::Rows> validation;
  std::map<std::string, uint64_t> digests;
};

}  // namespace thinwire::train

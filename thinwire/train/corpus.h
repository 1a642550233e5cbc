// The tokens that a run trains and evaluates on.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "thinwire/base/rng.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/rows.h"
#include "thinwire/data/token_sets.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::train {

// Opened from recipe.data.dir; the order of the rows follows from run.seed. Throws Error for data
// that was prepared with another vocabulary.
struct Corpus {
  Corpus(const config::Recipe& recipe, const data::Vocabulary& vocabulary)
      : sets(data::open_sets(recipe.data.dir, vocabulary.digest())),
        rows(sets.at("train"), recipe.train.sequence,
             derive_seed(static_cast<uint64_t>(recipe.run.seed), "data"),
             row_options(recipe, vocabulary)) {
    for (const auto& [name, tokens] : sets) {
      digests.emplace(name, tokens.digest());
      if (name == "train") continue;
      validation.emplace(name, data::Rows::ordered(tokens, recipe.train.sequence,
                                                   row_options(recipe, vocabulary)));
    }
  }

  static data::RowOptions row_options(const config::Recipe& recipe,
                                      const data::Vocabulary& vocabulary) {
    data::RowOptions options{{recipe.train.packing, recipe.train.long_records}};
    if (recipe.train.separate_documents) options.begin = vocabulary.eos();
    return options;
  }

  std::map<std::string, data::TokenSet> sets;
  data::Rows rows;
  std::map<std::string, data::Rows> validation;
  std::map<std::string, uint64_t> digests;
};

}  // namespace thinwire::train

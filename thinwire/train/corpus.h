// The tokens that a run trains and evaluates on.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/rows.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::train {

// Opened from recipe.data.dir; the order of the rows follows from run.seed. `elsewhere`: has the
// tokens of which that folder has no more than the shards' headers (data::ShardReader), and
// outlives this; else null. Throws Error for data that was prepared with another vocabulary.
struct Corpus {
  Corpus(const config::Recipe& recipe, const data::Vocabulary& vocabulary,
         data::ShardBytes* elsewhere = nullptr)
      : sets(data::open_sets(recipe.data.dir, vocabulary.digest(), data::kHashedAtOnce, elsewhere)),
        rows(sets.at("train"), recipe.train.sequence,
             derive_seed(static_cast<uint64_t>(recipe.run.seed), "data"),
             row_options(recipe, vocabulary, static_cast<uint64_t>(recipe.train.batch))) {
    for (const auto& [name, tokens] : sets) {
      check_kind(recipe, tokens);
      digests.emplace(name, tokens.digest());
      if (name == "train") continue;
      validation.emplace(name, data::Rows::ordered(tokens, recipe.train.sequence,
                                                   row_options(recipe, vocabulary)));
    }
  }

  static data::RowOptions row_options(const config::Recipe& recipe,
                                      const data::Vocabulary& vocabulary, uint64_t step_rows = 0) {
    data::RowOptions options{{recipe.train.packing, recipe.train.long_records}};
    options.step_rows = step_rows;
    if (recipe.train.separate_documents) options.begin = vocabulary.eos();
    return options;
  }

  // Throws UsageError if only one of the recipe and the data is about pairs of answers, texts with
  // a class, or texts with a number.
  static void check_kind(const config::Recipe& recipe, const data::TokenSet& tokens) {
    const data::ShardKind held = tokens.kind(), wanted = data::shard_kind(recipe.data.records);
    if (held == wanted) return;
    const auto refuse = [&](const char* what) {
      throw UsageError(fmt::format(
          "[data] records = \"{}\", but {} holds {}; `thinwire prepare --force` prepares it again",
          name_of(recipe.data.records), tokens.folder().string(), what));
    };
    using Kind = data::ShardKind;
    if (held == Kind::kPairs) refuse("pairs of answers (records = \"preferences\")");
    if (held == Kind::kClasses) refuse("texts with a class (records = \"labels\")");
    if (held == Kind::kNumbers) refuse("texts with a number (records = \"numbers\")");
    if (wanted == Kind::kPairs) refuse("no pairs of answers");
    if (wanted == Kind::kClasses) refuse("no texts with a class");
    if (wanted == Kind::kNumbers) refuse("no texts with a number");
  }

  std::map<std::string, data::TokenSet> sets;
  data::Rows rows;
  std::map<std::string, data::Rows> validation;
  std::map<std::string, uint64_t> digests;
};

// Rows of a validation set that evaluations use, spread over the whole set.
inline uint64_t evaluated_rows(const config::EvalSection& eval, const data::Rows& rows) {
  const auto wanted = static_cast<uint64_t>(eval.rows);
  return wanted == 0 ? rows.count() : std::min(wanted, rows.count());
}

}  // namespace thinwire::train

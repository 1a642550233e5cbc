// Pairs of a recipe's features that do not go together, as three tables: what is learnt, what
// workers exchange, and what a step holds in memory. check_pairs (combinations.h) reads them.
// Contradictions within the table of one method or optimizer are in its own check, those of fields
// that config alone knows in config/check.cpp.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {

using config::Recipe;

// A value of a field, or several.
struct Side {
  std::string_view field;  // "table.field"
  bool (*holds)(const Recipe& recipe);
};

// Two features that do not go together. In the sentence {one} and {other} stand for the values of
// their fields, as a recipe file writes them, and {able} for what able() says of the remedy.
struct Pair {
  Side one;
  Side other;
  std::string_view sentence;
  std::string (*able)(const Recipe& recipe) = nullptr;
};

// In the order in which they are asked: the first pair that applies is reported.
std::span<const Pair> refusals_of_learning();
std::span<const Pair> refusals_of_exchange();
std::span<const Pair> refusals_of_memory();

inline const Method& method_of(const Recipe& recipe) { return find_method(recipe.sync.method); }
inline bool local_updates(const Recipe& recipe) { return method_of(recipe).local_updates; }
inline bool projects(const Recipe& recipe) {
  return recipe.optim.gradients == config::GradientCoordinates::kProjected;
}

// The names of those of which `is_able` is true.
template <typename Records, typename Able>
std::string names_of(const Records& records, std::string_view separator, const Able& is_able) {
  std::vector<std::string_view> names;
  for (const auto* one : records) {
    if (is_able(*one)) names.push_back(one->name);
  }
  return fmt::format("{}", fmt::join(names, separator));
}
// What a feature needs that is for methods with local updates.
std::string local_update_methods(const Recipe& recipe);

// Sides of pairs of several tables.
inline constexpr Side kEveryStep{"sync.method",
                                 [](const Recipe& recipe) { return !local_updates(recipe); }};
inline constexpr Side kClustered{"sync.within",
                                 [](const Recipe& recipe) { return recipe.sync.clustered(); }};
inline constexpr Side kAbsent{"sync.absent",
                              [](const Recipe& recipe) { return !recipe.sync.absent.empty(); }};
inline constexpr Side kEncoder{"model.architecture", [](const Recipe& recipe) {
                                 return find_architecture(recipe.model.architecture).encodes;
                               }};
inline constexpr Side kProjected{"optim.gradients", projects};
inline constexpr Side kAdapted{"adapter.kind",
                               [](const Recipe& recipe) { return is_adapted(recipe.adapter); }};
inline constexpr Side kSmallWeights{"train.weights", [](const Recipe& recipe) {
                                      return recipe.train.weights != WeightFormat::kF32;
                                    }};
inline constexpr Side kElsewhere{"train.device", [](const Recipe& recipe) {
                                   return recipe.train.device != config::DeviceChoice::kCpu;
                                 }};

}  // namespace thinwire::method

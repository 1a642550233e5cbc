// Refusals of what workers exchange: in clusters or not, in equal shares or not, and how it is
// aggregated.
#include "thinwire/method/refusals.h"

namespace thinwire::method {
namespace {

std::string range_of_clusters(const Recipe& recipe) {
  return fmt::format("clusters >= 1 and <= [train] workers = {}", recipe.train.workers);
}

constexpr Side kLate{"sync.late", [](const Recipe& recipe) {
                       return recipe.sync.late != config::LateContributions::kDrop;
                     }};
constexpr Side kRobust{"sync.aggregate",
                       [](const Recipe& recipe) { return recipe.sync.aggregation().robust(); }};

}  // namespace

std::span<const Pair> refusals_of_exchange() {
  static const Pair pairs[] = {
      {{"sync.clusters", [](const Recipe& recipe) { return recipe.sync.clusters > 0; }},
       {"sync.within", [](const Recipe& recipe) { return !recipe.sync.clustered(); }},
       "[sync] clusters = {one} needs within = \"allreduce\" or \"distro\", got {other}, and "
       "{able}",
       local_update_methods},
      {kClustered, kEveryStep,
       "[sync] within = {one} needs {able}, got method = {other}, which synchronises all workers "
       "every step",
       [](const Recipe& recipe) {
         return local_update_methods(recipe) + " and " + range_of_clusters(recipe);
       }},
      {kClustered,
       {"sync.clusters", [](const Recipe& recipe) { return recipe.sync.clusters == 0; }},
       "[sync] within = {one} needs {able}, got none",
       range_of_clusters},
      {kAbsent, kEveryStep,
       "[sync] absent = {one} needs {able}, got method = {other}, which synchronises all of them "
       "every step: there are no rounds of independent steps to be absent from",
       local_update_methods},
      {kLate,
       {"sync.method", [](const Recipe& recipe) { return !method_of(recipe).sums_late; }},
       "[sync] late = {one} needs method = {able}, got {other}: late changes of weights still "
       "count, "
       "late gradients are of weights that are gone",
       [](const Recipe&) {
         return names_of(all_methods(), " or ", [](const Method& one) { return one.sums_late; });
       }},
      {kLate, kRobust,
       "[sync] late = {one} needs aggregate = \"mean\", got {other}: other rules compare "
       "contributions of one round"},
      {{"sync.trim",
        [](const Recipe& recipe) { return recipe.sync.trim != config::SyncSection().trim; }},
       {"sync.aggregate",
        [](const Recipe& recipe) { return recipe.sync.aggregate != Aggregate::kTrimmedMean; }},
       "[sync] trim = {one} needs aggregate = \"trimmed_mean\", got {other}"},
  };
  return pairs;
}

}  // namespace thinwire::method

// What a run needs to go on from a checkpoint, and what differs then (resume_rules.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"

namespace thinwire::checkpoint {
namespace {

// The message begins with what differs and ends with what can be done.
[[noreturn]] void refuse(const CheckpointReader& checkpoint, std::string_view difference,
                         std::string_view remedy) {
  throw UsageError(
      fmt::format("{} belongs to another run: {}; {}, choose another run.dir (train.init={} "
                  "starts from its weights), or pass --restart to start over",
                  checkpoint.folder().string(), difference, remedy, checkpoint.folder().string()));
}

void check_vocabulary(const CheckpointReader& checkpoint, const RunSources& now) {
  for (const auto& [name, file] : checkpoint.files()) {
    if (!name.starts_with("vocabulary.") || file.hash == now.vocabulary_digest) continue;
    refuse(checkpoint, fmt::format("its vocabulary is not the one in {}", now.recipe.data.dir),
           "set data.dir to the data of the run");
  }
}

// Validation sets that only one side has are no reason to stop: the training set is the same.
void check_data(const CheckpointReader& checkpoint, const RunSources& now,
                std::vector<std::string>& notices) {
  const DataDigests& before = checkpoint.meta().data;
  if (before.empty()) {
    notices.push_back(
        fmt::format("{} was written before checkpoints recorded their training data; resuming with "
                    "the data in {}, which cannot be compared",
                    checkpoint.folder().string(), now.recipe.data.dir));
    return;
  }
  for (const auto& [set, digest] : before) {
    const auto found = now.data.find(set);
    if (found == now.data.end()) {
      notices.push_back(
          fmt::format("{} no longer has a validation set '{}'", now.recipe.data.dir, set));
    } else if (found->second != digest) {
      refuse(checkpoint,
             fmt::format("the set '{}' in {} (digest {}) is not the one it was trained with ({})",
                         set, now.recipe.data.dir, to_hex(found->second), to_hex(digest)),
             "set data.dir to the data of the run");
    }
  }
  for (const auto& [set, digest] : now.data) {
    if (!before.contains(set)) {
      notices.push_back(
          fmt::format("the validation set '{}' is new in {}", set, now.recipe.data.dir));
    }
  }
}

// Whether programs before this one took other steps with the recipe's optimizer, by more than
// rounding.
bool other_steps_before(int numerics_version, const config::Recipe& recipe) {
  return numerics_version < method::find_optimizer(recipe.optim.method).steps_since;
}

void check_numerics(const CheckpointReader& checkpoint, const config::Recipe& recipe,
                    std::vector<std::string>& notices) {
  const CheckpointMeta& meta = checkpoint.meta();
  if (meta.numerics_version > kNumericsVersion) {
    throw Error(fmt::format(
        "{} has numerics version {}, written by a later program; this one has version {} and "
        "cannot resume from it; use the later program, or train.init to start from its weights",
        checkpoint.folder().string(), meta.numerics_version, kNumericsVersion));
  }
  if (meta.numerics_version == kNumericsVersion) return;
  const bool other_steps = other_steps_before(meta.numerics_version, recipe);
  notices.push_back(fmt::format(
      "the checkpoint is from an earlier program (numerics version {}, now {}){}: "
      "workers still agree, but from here on {} differ from those of a run that the "
      "earlier program would have finished",
      meta.numerics_version, kNumericsVersion,
      other_steps ? fmt::format(", in which {0} took other steps (thinwire/optimizers/{0}/{0}.md)",
                                recipe.optim.method)
                  : "",
      other_steps ? "results" : "the last bits of results may"));
}

config::Recipe recipe_of(const CheckpointReader& checkpoint) {
  return config::parse_recipe(checkpoint.recipe_text(),
                              (checkpoint.folder() / kRecipeFile).string(), {},
                              method::method_sections());
}

}  // namespace

std::optional<fs::path> newest_intact_before(const fs::path& folder) {
  std::vector<fs::path> all = list_checkpoints(folder.parent_path());
  std::ranges::reverse(all);
  const auto damaged = std::ranges::find(all, folder);
  for (auto older = damaged == all.end() ? damaged : damaged + 1; older != all.end(); ++older) {
    try {
      const CheckpointReader reader(*older);
      return *older;
    } catch (const Error&) {
    }
  }
  return std::nullopt;
}

std::unique_ptr<CheckpointReader> open_newest(const fs::path& folder) {
  try {
    return std::make_unique<CheckpointReader>(folder);
  } catch (const Error& damage) {
    const auto sound = newest_intact_before(folder);
    if (!sound) {
      throw Error(fmt::format("{}\nno older checkpoint of the run is intact; --restart starts over",
                              damage.what()));
    }
    throw Error(
        fmt::format("{}\nthe newest one that can be read is {}; to resume from it, remove {} and "
                    "repeat the command:\n  rm -r '{}'",
                    damage.what(), sound->string(), folder.filename().string(), folder.string()));
  }
}

ResumeFacts check_resume(const CheckpointReader& checkpoint, const RunSources& now) {
  const CheckpointMeta& meta = checkpoint.meta();
  const config::Recipe before = recipe_of(checkpoint);
  RecipeChanges changes = compare_recipes(before, now.recipe, !meta.data.empty());
  if (!changes.refused.empty()) {
    refuse(checkpoint, fmt::format("{}", fmt::join(changes.refused, "; ")), "set it back");
  }
  check_vocabulary(checkpoint, now);
  check_data(checkpoint, now, changes.notices);
  check_numerics(checkpoint, now.recipe, changes.notices);
  const auto done = static_cast<int64_t>(meta.step);
  if (done > now.recipe.train.steps) {
    throw UsageError(
        fmt::format("[train] steps = {}, but {} has already done {} steps; set steps to {} or "
                    "more, or choose another run.dir",
                    now.recipe.train.steps, now.recipe.run.dir, done, done));
  }
  const bool given_more = done == before.train.steps && done < now.recipe.train.steps;
  return {std::move(changes.notices), given_more ? done : static_cast<int64_t>(meta.ended_at)};
}

}  // namespace thinwire::checkpoint

#include "thinwire/checkpoint/resume_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/rng.h"
#include "thinwire/config/changes.h"
#include "thinwire/config/check.h"
#include "thinwire/method/registry.h"

namespace thinwire::checkpoint {
namespace {

constexpr std::string_view kRounding =
    "sums are formed in a different order, so results are the same up to rounding, not bit for "
    "bit; workers still agree with each other";

constexpr std::string_view kEnding = "steps are the same, but the run may end at a different one";

constexpr std::array kRules = {
    ResumeRule{"run.name", OnChange::kSameBits},
    ResumeRule{"run.dir", OnChange::kSameBits},
    ResumeRule{"data.fetch", OnChange::kSameBits},
    ResumeRule{"data.fetch_cache", OnChange::kSameBits},
    ResumeRule{"data.*", OnChange::kData},
    ResumeRule{"model.recompute", OnChange::kSameBits},
    ResumeRule{"model.block_inputs", OnChange::kOtherBits,
               "blocks are recomputed from inputs that are rounded, or no longer rounded"},
    ResumeRule{"model.vocab_slabs", OnChange::kOtherBits,
               "the head's gradient is formed by other products, so results are the same up to "
               "rounding; workers still agree with each other"},
    ResumeRule{"train.launcher", OnChange::kSameBits},
    ResumeRule{"train.offload", OnChange::kSameBits},
    ResumeRule{"train.offload_dir", OnChange::kSameBits},
    ResumeRule{"sync.timeout_s", OnChange::kSameBits},
    ResumeRule{"allreduce.hide", OnChange::kSameBits},
    ResumeRule{"eval.every", OnChange::kSameBits},
    ResumeRule{"eval.tasks", OnChange::kSameBits},
    ResumeRule{"eval.data", OnChange::kSameBits},
    ResumeRule{"checkpoint.*", OnChange::kSameBits},
    ResumeRule{"log.*", OnChange::kSameBits},
    ResumeRule{"links.*", OnChange::kSameBits},
    ResumeRule{"train.steps", OnChange::kOtherBits,
               "the learning rate follows the schedule for the new number, so bits differ from "
               "those of a run planned that long"},
    ResumeRule{"train.threads", OnChange::kOtherBits, kRounding},
    ResumeRule{"train.microbatch", OnChange::kOtherBits, kRounding},
    ResumeRule{"train.update", OnChange::kOtherBits,
               "gradients that are averaged in fp8, fp4 or int2 are quantised in other blocks; all "
               "else has the same bits"},
    ResumeRule{"optim.gradients", OnChange::kOtherBits,
               "projected gradients are formed by other products, and clipping takes the norm of "
               "what is projected"},
    ResumeRule{"eval.rows", OnChange::kOtherBits,
               "validation losses are over different rows than before and are not comparable with "
               "earlier ones"},
    ResumeRule{"eval.limit", OnChange::kOtherBits,
               "scores of tasks are over other items than before and are not comparable with "
               "earlier ones"},
    ResumeRule{"eval.watch", OnChange::kOtherBits, kEnding},
    ResumeRule{"eval.patience", OnChange::kOtherBits, kEnding},
};

// What each member of a run sets for its own machine; it affects only that member's local
// gradients.
constexpr std::array<std::string_view, 3> kMachineLocal = {"train.threads", "train.device",
                                                           "train.precision"};

bool covers(const ResumeRule& rule, std::string_view field) {
  if (!rule.field.ends_with(".*")) return rule.field == field;
  return field.starts_with(rule.field.substr(0, rule.field.size() - 1));
}

// Null if a change makes a different run.
const ResumeRule* find_rule(const config::Recipe& recipe, std::string_view field) {
  if (field.starts_with("links.") && recipe.sync.shares != config::RowShares::kEqual)
    return nullptr;
  const auto found =
      std::ranges::find_if(kRules, [&](const ResumeRule& rule) { return covers(rule, field); });
  return found == kRules.end() ? nullptr : &*found;
}

// What a recipe identifies.
enum class IdentityOf : uint8_t {
  kFolder,  // a run's results: data and machine belong to it
  kRun,     // a run that machines of different kinds share; the data counts by its digests
};

// Sets fields that do not count to a fixed value: texts and names empty, the rest as in `defaults`.
// Names count as texts, which they once were: an identity must stay what it was.
void drop(const config::Recipe& recipe, config::Recipe& copy, config::Recipe& defaults,
          IdentityOf whose) {
  const bool shared = whose == IdentityOf::kRun;
  const auto visit = [&](const std::string& name, const config::Field& field,
                         const config::Field& by_default) {
    const ResumeRule* rule = find_rule(recipe, name);
    const bool same = rule != nullptr && (rule->on_change == OnChange::kSameBits ||
                                          (rule->on_change == OnChange::kData && shared));
    const bool local = shared && std::ranges::find(kMachineLocal, name) != kMachineLocal.end();
    if (!same && !local) return;
    std::visit(
        [&]<typename T>(const T& target) {
          *target = *std::get<T>(by_default.target);
          if constexpr (std::is_same_v<T, std::string*>) target->clear();
          if constexpr (std::is_same_v<T, config::NamedTarget>) {
            *target = static_cast<uint8_t>(target.names.size());  // which has no name
          }
        },
        field.target);
  };
  config::visit_fields(copy, defaults, visit);
}

std::string identity(const config::Recipe& recipe, IdentityOf whose) {
  config::Recipe copy = recipe;
  config::Recipe defaults = config::read_recipe({}, method::method_sections());
  drop(recipe, copy, defaults, whose);
  // 0 stands for 64 wherever 64 is possible.
  if (copy.data.validation_block == 64) copy.data.validation_block = 0;
  // An identity was there before this field, whose value does not count.
  copy.data.fetch = defaults.data.fetch;
  return config::print_changes(copy, defaults);
}

}  // namespace

std::span<const ResumeRule> resume_rules() { return kRules; }

RecipeChanges compare_recipes(const config::Recipe& before, const config::Recipe& now,
                              bool data_known) {
  RecipeChanges changes;
  for (const config::FieldChange& change : config::field_changes(before, now)) {
    const std::string what =
        fmt::format("{} was {}, is {}", change.field, change.before, change.now);
    const ResumeRule* rule = find_rule(now, change.field);
    if (rule == nullptr || (rule->on_change == OnChange::kData && !data_known)) {
      changes.refused.push_back(what);
    } else if (rule->on_change == OnChange::kOtherBits) {
      changes.notices.push_back(fmt::format("{}: from here on {}", what, rule->effect));
    }
  }
  return changes;
}

std::string run_identity(const config::Recipe& recipe) {
  return identity(recipe, IdentityOf::kFolder);
}

uint64_t new_run_id(const RunSources& sources, int numerics_version) {
  uint64_t id = hash_bytes(as_bytes(identity(sources.recipe, IdentityOf::kRun)));
  for (const uint64_t part : {sources.vocabulary_digest, sources.data.at("train"),
                              static_cast<uint64_t>(numerics_version)}) {
    id = derive_seed(id, part);
  }
  return id;
}

}  // namespace thinwire::checkpoint

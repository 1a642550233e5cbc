#include "thinwire/checkpoint/resume_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <variant>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/rng.h"
#include "thinwire/config/changes.h"
#include "thinwire/method/registry.h"

namespace thinwire::checkpoint {
namespace {

constexpr std::string_view kRounding =
    "sums are formed in another order, so results are the same up to rounding, not bit for bit; "
    "workers still agree with each other";

constexpr std::string_view kEnding = "steps are the same, but the run may end after another one";

constexpr std::array kRules = {
    ResumeRule{"run.name", OnChange::kSameBits},
    ResumeRule{"run.dir", OnChange::kSameBits},
    ResumeRule{"data.*", OnChange::kData},
    ResumeRule{"model.recompute", OnChange::kSameBits},
    ResumeRule{"train.launcher", OnChange::kSameBits},
    ResumeRule{"sync.timeout_s", OnChange::kSameBits},
    ResumeRule{"eval.every", OnChange::kSameBits},
    ResumeRule{"checkpoint.*", OnChange::kSameBits},
    ResumeRule{"log.*", OnChange::kSameBits},
    ResumeRule{"links.*", OnChange::kSameBits},
    ResumeRule{"train.steps", OnChange::kOtherBits,
               "the learning rate follows the schedule of the new number, so bits differ from a "
               "run planned that long"},
    ResumeRule{"train.threads", OnChange::kOtherBits, kRounding},
    ResumeRule{"train.microbatch", OnChange::kOtherBits, kRounding},
    ResumeRule{"train.update", OnChange::kOtherBits,
               "gradients that are averaged in fp8, fp4 or int2 are quantised in other blocks; all "
               "else has the same bits"},
    ResumeRule{"eval.rows", OnChange::kOtherBits,
               "validation losses are over other rows than before and do not compare with them"},
    ResumeRule{"eval.watch", OnChange::kOtherBits, kEnding},
    ResumeRule{"eval.patience", OnChange::kOtherBits, kEnding},
};

bool covers(const ResumeRule& rule, std::string_view field) {
  if (!rule.field.ends_with(".*")) return rule.field == field;
  return field.starts_with(rule.field.substr(0, rule.field.size() - 1));
}

// Null where a change makes another run.
const ResumeRule* find_rule(const config::Recipe& recipe, std::string_view field) {
  if (field.starts_with("links.") && recipe.sync.shares != config::RowShares::kEqual)
    return nullptr;
  const auto found =
      std::ranges::find_if(kRules, [&](const ResumeRule& rule) { return covers(rule, field); });
  return found == kRules.end() ? nullptr : &*found;
}

// Sets what does not count to one value: texts empty, the rest as in `defaults`.
void drop(const config::Recipe& recipe, config::Recipe& copy, config::Recipe& defaults,
          bool with_data) {
  const auto visit = [&](const std::string& name, const config::Field& field,
                         const config::Field& by_default) {
    const ResumeRule* rule = find_rule(recipe, name);
    const bool dropped = rule != nullptr && (rule->on_change == OnChange::kSameBits ||
                                             (rule->on_change == OnChange::kData && !with_data));
    if (!dropped) return;
    std::visit(
        [&]<typename T>(const T& target) {
          *target = *std::get<T>(by_default.target);
          if constexpr (std::is_same_v<T, std::string*>) target->clear();
        },
        field.target);
  };
  config::visit_fields(copy, defaults, visit);
}

std::string identity(const config::Recipe& recipe, bool with_data) {
  config::Recipe copy = recipe;
  config::Recipe defaults = method::load_recipe({}, {});
  drop(recipe, copy, defaults, with_data);
  // 64 is what 0 stands for wherever 64 can be.
  if (copy.data.validation_block == 64) copy.data.validation_block = 0;
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

std::string run_identity(const config::Recipe& recipe) { return identity(recipe, true); }

uint64_t new_run_id(const RunSources& sources, int numerics_version) {
  uint64_t id = hash_bytes(as_bytes(identity(sources.recipe, false)));
  for (const uint64_t part : {sources.vocabulary_digest, sources.data.at("train"),
                              static_cast<uint64_t>(numerics_version)}) {
    id = derive_seed(id, part);
  }
  return id;
}

}  // namespace thinwire::checkpoint

#include "thinwire/plan/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/config/renamed.h"
#include "thinwire/config/values.h"
#include "thinwire/method/registry.h"

namespace thinwire::plan {
namespace {

struct Variation {
  const char* field;
  std::vector<std::string> values;
  bool local_updates_only = false;  // only where workers train independently
  const char* method = "";          // only of this one; empty: of all that have the field
  // Other fields and their values, without which the values make no sense.
  std::vector<std::pair<const char*, const char*>> with = {};
};

// Pseudo-gradients of many steps lose nothing in fp4 (arXiv 2501.18512), nor in two bits with error
// feedback (bench/results/2026-11-21-outer-loss.md), and little in one
// (bench/results/2026-11-28-one-bit-muon.md); nobody has shown this for gradients. Their sums lose
// nothing in fp4 (bench/results/2026-11-30-sum-formats.md).
const std::vector<Variation>& variations() {
  static const std::vector<Variation> all = {
      {"overlap", {"0", "1", "none", "inner", "eager"}},
      {"look_ahead", {"true"}, false, "", {{"overlap", "1"}}},
      {"k", {"8", "32", "128", "512"}, false, "distro"},
      {"sync_every", {"32", "128", "512"}},
      {"local_steps", {"32", "128", "512"}},
      {"wire", {"fp4"}, true},
      {"wire", {"int2", "int1"}, true, "", {{"error_feedback", "true"}}},
      {"wire", {"int1"}, true, "", {{"error_feedback", "true"}, {"sum_wire", "fp4"}}}};
  return all;
}

config::Recipe load(const std::filesystem::path& path, std::span<const std::string> overrides,
                    std::span<const std::string> more) {
  std::vector<std::string> all(overrides.begin(), overrides.end());
  all.insert(all.end(), more.begin(), more.end());
  return method::load_recipe(path, all);
}

// The value of the method's field with this name, as written in a recipe; empty if there is none.
std::string value_of(config::Recipe recipe, const std::string& method, const std::string& name) {
  config::Fields fields;
  recipe.methods.at(method)->describe(fields);
  for (const config::Field& field : fields.all()) {
    if (field.name == name) return config::plain_value(field);
  }
  return {};
}

class Maker {
 public:
  Maker(const std::filesystem::path& path, std::span<const std::string> overrides, int64_t members,
        int64_t clusters, bool unequal)
      : path_(path),
        workers_(fmt::format("train.workers={}", members)),
        clusters_(clusters),
        unequal_(unequal) {
    // A candidate's own overrides have present names, and one field cannot be given by two.
    for (const std::string& text : overrides) {
      overrides_.push_back(config::recipe_renames().present_override(text));
    }
  }

  Candidates make() {
    const config::Recipe given = load(path_, overrides_, std::vector<std::string>{workers_});
    for (const method::Method* method : method::all_methods()) add(*method);
    for (const SyncSchedule& schedule : eager_schedules()) {
      candidates_.all.push_back({schedule.name, "", given, schedule});
    }
    candidates_.all.push_back({vanilla_diloco(100).name, "", given, vanilla_diloco(100)});
    return std::move(candidates_);
  }

 private:
  void add(const method::Method& method) {
    const std::string name(method.name);
    base_ = {"sync.method=" + name, workers_};
    try {
      candidates_.all.push_back({name, "", load(path_, overrides_, base_), {}});
    } catch (const UsageError& error) {
      candidates_.left_out.push_back({name, error.what()});
      return;
    }
    const config::Recipe plain = candidates_.all.back().recipe;
    for (const Variation& variation : variations()) {
      if (variation.local_updates_only && !method.local_updates) continue;
      if (*variation.method == 0 || name == variation.method) vary(name, plain, variation);
    }
    if (unequal_ && plain.sync.shares == config::RowShares::kEqual) {
      try_setting(name, "shares = speed", {"sync.shares=speed"});
    }
    if (clusters_ == 0 || !method.local_updates || plain.sync.clustered()) return;
    try_setting(name, fmt::format("within = allreduce, clusters = {}", clusters_),
                {"sync.within=allreduce", fmt::format("sync.clusters={}", clusters_)});
  }

  void vary(const std::string& method, const config::Recipe& plain, const Variation& variation) {
    const std::string present = value_of(plain, method, variation.field);
    if (present.empty()) return;
    const bool has_rest = std::ranges::all_of(variation.with, [&](const auto& one) {
      return value_of(plain, method, one.first) == one.second;
    });
    for (const std::string& value : variation.values) {
      if (present == value && has_rest) continue;
      std::string setting = fmt::format("{} = {}", variation.field, value);
      std::vector<std::string> more = {fmt::format("{}.{}={}", method, variation.field, value)};
      for (const auto& [field, needed] : variation.with) {
        setting += fmt::format(", {} = {}", field, needed);
        more.push_back(fmt::format("{}.{}={}", method, field, needed));
      }
      try_setting(method, std::move(setting), more);
    }
  }

  // A value that the method's other settings rule out is skipped.
  void try_setting(const std::string& method, std::string setting,
                   const std::vector<std::string>& more) {
    std::vector<std::string> all = base_;
    all.insert(all.end(), more.begin(), more.end());
    try {
      candidates_.all.push_back({method, std::move(setting), load(path_, overrides_, all), {}});
    } catch (const UsageError&) {
    }
  }

  const std::filesystem::path& path_;
  std::vector<std::string> overrides_;
  std::string workers_;
  int64_t clusters_;
  bool unequal_;
  std::vector<std::string> base_;  // of the current method
  Candidates candidates_;
};

}  // namespace

Candidates make_candidates(const std::filesystem::path& path,
                           std::span<const std::string> overrides, int64_t members,
                           int64_t clusters, bool unequal) {
  return Maker(path, overrides, members, clusters, unequal).make();
}

}  // namespace thinwire::plan

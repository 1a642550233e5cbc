#include "thinwire/plan/candidates.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/config/values.h"
#include "thinwire/method/registry.h"

namespace thinwire::plan {
namespace {

struct Variation {
  const char* field;
  std::vector<std::string> values;
};

const std::vector<Variation>& variations() {
  static const std::vector<Variation> all = {{"overlap", {"0", "1", "none", "inner", "eager"}},
                                             {"sync_every", {"32", "128", "512"}},
                                             {"local_steps", {"32", "128", "512"}}};
  return all;
}

config::Recipe load(const std::filesystem::path& path, std::span<const std::string> overrides,
                    std::span<const std::string> more) {
  std::vector<std::string> all(overrides.begin(), overrides.end());
  all.insert(all.end(), more.begin(), more.end());
  return method::load_recipe(path, all);
}

// The value of the method's field of this name, as it is written; empty where there is none.
std::string value_of(config::Recipe recipe, const std::string& method, const std::string& name) {
  config::Fields fields;
  recipe.methods.at(method)->describe(fields);
  for (const config::Field& field : fields.all()) {
    if (field.name != name) continue;
    const auto* const* text = std::get_if<std::string*>(&field.target);
    return text != nullptr ? **text : config::print_value(field);
  }
  return {};
}

void add_variations(Candidates& candidates, const std::filesystem::path& path,
                    std::span<const std::string> overrides, std::vector<std::string> base) {
  const Candidate plain = candidates.all.back();
  for (const Variation& variation : variations()) {
    const std::string present = value_of(plain.recipe, plain.method, variation.field);
    for (const std::string& value : variation.values) {
      if (present.empty() || present == value) continue;
      base.push_back(fmt::format("{}.{}={}", plain.method, variation.field, value));
      try {
        candidates.all.push_back({plain.method,
                                  fmt::format("{} = {}", variation.field, value),
                                  load(path, overrides, base),
                                  {}});
      } catch (const UsageError&) {
        // A value that the method's other settings rule out is no way to train.
      }
      base.pop_back();
    }
  }
}

}  // namespace

Candidates make_candidates(const std::filesystem::path& path,
                           std::span<const std::string> overrides, int64_t members) {
  Candidates candidates;
  const std::string workers = fmt::format("train.workers={}", members);
  const config::Recipe given = load(path, overrides, std::vector<std::string>{workers});
  for (const method::Method* method : method::all_methods()) {
    const std::string name(method->name);
    const std::vector<std::string> base = {"sync.method=" + name, workers};
    try {
      candidates.all.push_back({name, "", load(path, overrides, base), {}});
    } catch (const UsageError& error) {
      candidates.left_out.push_back({name, error.what()});
      continue;
    }
    add_variations(candidates, path, overrides, base);
  }
  for (const SyncSchedule& schedule : eager_schedules()) {
    candidates.all.push_back({schedule.name, "", given, schedule});
  }
  candidates.all.push_back({vanilla_diloco(100).name, "", given, vanilla_diloco(100)});
  return candidates;
}

}  // namespace thinwire::plan

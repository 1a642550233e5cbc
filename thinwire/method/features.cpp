// The list of features (combinations.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <variant>

#include "thinwire/config/check.h"
#include "thinwire/config/values.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using Ways = std::vector<Overrides>;

// Tables and fields that describe the text, the model or the learning rate, or what is printed.
constexpr std::array<std::string_view, 12> kNoFeatures = {
    "run.",       "data.document", "data.invalid_utf8",    "data.bad_lines", "data.vocabulary",
    "data.fetch", "schedule.",     "data.vocabulary_type", "log.",           "llama.",
    "roberta.",   "external."};

// Features with numbers or lists.
constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kOthers = {{
    {"privacy.clip", "1"},
    {"privacy.noise", "0.5"},
    {"privacy.sampling", "0.5"},
    {"model.vocab_slabs", "2"},
    {"train.microbatch", "1"},
    {"train.init", "MODEL"},
    {"sync.absent", "1=1-1"},
    {"sync.quorum", "0.8"},
    {"eval.tasks", "TASK"},
    {"eval.patience", "1"},
    {"links.step_s", "1"},
    {"distro.local_steps", "2"},
    {"distro.overlap", "1"},
    {"diloco.depth", "2"},
    {"diloco.overlap_after", "1"},
    {"streaming.slices", "2"},
    {"optim.clip", "0"},
}};

// What a feature needs, by its field and value, by its field, or by its field's name in any table.
const std::map<std::string_view, Ways>& needs_of_features() {
  static const Overrides outer = {"sync.method=diloco"};
  static const Overrides layer = {"train.update=layer", "optim.clip_by=previous"};
  static const Overrides answers = {"data.records=preferences", "train.init=MODEL"};
  static const Overrides encoder = {"model.architecture=roberta", "roberta.labels=2"};
  static const Overrides clip = {"sync.method=diloco", "data.own=true"};
  static const Overrides noise = {"sync.method=diloco", "data.own=true", "privacy.clip=1"};
  static const Overrides sampling = {"sync.method=diloco", "data.own=true", "privacy.clip=1",
                                     "privacy.noise=0.5"};
  static const Overrides secure = {"sync.method=diloco", "data.own=true", "diloco.wire=fp32"};
  static const std::map<std::string_view, Ways> needs = {
      {"adapter.kind=lora", {{"train.init=MODEL"}}},
      {"adapter.whole", {{"adapter.kind=lora", "train.init=MODEL"}}},
      {"data.records=labels", {encoder}},
      {"sync.shares=own", {{"data.own=true"}}},
      {"data.records=numbers", {{"model.architecture=roberta", "roberta.labels=1"}}},
      {"data.records=preferences", {{"train.init=MODEL"}}},
      {"depth", {{"overlap=eager"}}},
      {"distro.local_steps", {{"distro.client=stateless"}}},
      {"distro.local_update", {{"distro.client=stateless"}}},
      {"distro.look_ahead", {{"distro.overlap=1"}}},
      {"error_in", {{"error_feedback=true", "wire=int1"}}},
      {"eval.patience", {{"eval.every=1"}}},
      {"checkpoint.best", {{"eval.every=1"}}},
      {"eval.tasks", {{"eval.data=DATA"}}},
      {"links.paced", {{"train.launcher=mpi"}}},
      {"model.architecture=roberta", {{"data.records=labels", "roberta.labels=2"}}},
      {"model.block_inputs", {{"model.recompute=block", "train.precision=bf16"}}},
      {"model.vocab_slabs", {layer}},
      {"optim.bases", {{"optim.method=galore"}}},
      {"optim.gradients", {{"optim.method=galore"}}},
      {"overlap_after", {{"overlap=eager"}}},
      {"preference.loss", {answers}},
      {"privacy.clip", {clip}},
      {"privacy.noise", {noise}},
      {"privacy.sampling", {sampling}},
      {"privacy.secure_sums", {secure}},
      {"distro.sum_wire", Ways{{}}},
      {"sparseloco.sum_wire", Ways{{}}},
      {"sum_wire", {{"wire=int1"}}},
      {"sync.absent", {outer}},
      {"sync.late", {outer}},
      {"sync.within", {{"sync.method=diloco", "sync.clusters=2"}}},
      {"train.long_records", {{"data.records=prompts"}, answers}},
      {"train.packing", {{"data.records=prompts"}, answers}},
      {"train.update", {{"optim.clip_by=previous"}, {"optim.clip=0"}}},
      {"train.weights", {{"train.precision=bf16"}}},
      {"train.weights=int8", {{"train.precision=bf16", "adapter.kind=lora", "train.init=MODEL"}}},
      {"train.weights=nf4", {{"train.precision=bf16", "adapter.kind=lora", "train.init=MODEL"}}},
  };
  return needs;
}

// Stands for one of the other values, depending on the machine.
constexpr std::string_view kResolved = "auto";

// Fields, and values of fields, that a coordinator alone follows.
constexpr std::array<std::string_view, 9> kCoordinated = {
    "data.own",  "privacy.clip", "privacy.noise", "privacy.sampling", "privacy.secure_sums",
    "sync.late", "sync.quorum",  "sync.sums",     "sync.shares=own"};

bool is_feature(std::string_view table, const std::string& key) {
  return std::ranges::none_of(kNoFeatures, [&](std::string_view name) {
    return name == key || (name.ends_with('.') && name == std::string(table) + ".");
  });
}

// The ways, each after the same beginning; names without a table are fields of `table`.
Ways extend(const Ways& beginnings, const Ways& needs, std::string_view table) {
  Ways ways;
  for (const Overrides& more : needs) {
    for (Overrides way : beginnings) {
      for (const std::string& one : more) {
        const bool whole = one.substr(0, one.find('=')).find('.') != std::string::npos;
        way.push_back(whole ? one : fmt::format("{}.{}", table, one));
      }
      ways.push_back(std::move(way));
    }
  }
  return ways;
}

// How the table of a method, an optimizer or an architecture comes to have a meaning.
Ways ways_to_choose(const std::string& table, const config::Section& section,
                    const config::StringList& within) {
  Ways ways = {{fmt::format("{}={}", section.chosen_by(), table)}};
  const bool inside = section.chosen_by() == "sync.method" && std::ranges::count(within, table) > 0;
  if (inside) {
    ways.push_back({"sync.method=diloco", "sync.within=" + table, "sync.clusters=2"});
  }
  return ways;
}

template <typename Records>
config::StringList names_of_all(const Records& records) {
  config::StringList names;
  for (const auto* record : records) names.emplace_back(record->name);
  return names;
}

// The values of a field that has named ones.
config::StringList values_of(const std::string& key, const config::Field& field) {
  if (key == "sync.method") return names_of_all(all_methods());
  if (key == "optim.method") return names_of_all(all_optimizers());
  if (key == "model.architecture") return names_of_all(all_architectures());
  if (std::holds_alternative<bool*>(field.target)) return {"false", "true"};
  return field.choices;
}

class List {
 public:
  List() : defaults_(config::read_recipe({}, method_sections())) {
    config::Fields sync;
    defaults_.sync.describe(sync);
    for (const config::Field& field : sync.all()) {
      if (field.name == "within") within_ = field.choices;
    }
  }

  std::vector<Feature> features() {
    for (const auto& [table, section] : defaults_.sections()) {
      config::Fields fields;
      section->describe(fields);
      const bool chosen = defaults_.methods.contains(table);
      const Ways ways = chosen ? ways_to_choose(table, *section, within_) : Ways{{}};
      for (const config::Field& field : fields.all()) {
        if (!is_repeated(table, field)) add_values(table, field, ways);
      }
    }
    add_command("thinwire serve", Command::kServe);
    add_command("thinwire serve --mailbox", Command::kMailbox);
    add_command("thinwire join train.launcher=mpi", Command::kSite);
    add_command("thinwire join --audit", Command::kAudit);
    return std::move(features_);
  }

 private:
  // Whether the table is of a preset, and the method that it is a preset of has the field, too.
  bool is_repeated(const std::string& table, const config::Field& field) const {
    const auto preset = std::ranges::find(all_methods(), table, &Method::name);
    if (preset == all_methods().end() || (*preset)->algorithm == table) return false;
    const auto method = defaults_.methods.find(std::string((*preset)->algorithm));
    if (method == defaults_.methods.end()) return false;
    config::Fields fields;
    method->second->describe(fields);
    return std::ranges::count(fields.all(), field.name, &config::Field::name) > 0;
  }

  void add_values(const std::string& table, const config::Field& field, const Ways& ways) {
    const std::string key = config::key_of(table, field);
    if (!is_feature(table, key)) return;
    const std::string usual = config::plain_value(field);
    for (const std::string& value : values_of(key, field)) {
      const bool alone = key == "sync.method" || key == "optim.method";  // always one of them
      if (value == kResolved || (value == usual && !alone)) continue;
      add(table, field, value, ways);
    }
    for (const auto& [other, value] : kOthers) {
      if (other == key) add(table, field, std::string(value), ways);
    }
  }

  void add(const std::string& table, const config::Field& field, const std::string& value,
           const Ways& ways) {
    const std::string key = config::key_of(table, field);
    Feature feature{.name = fmt::format("{} = {}", key, value),
                    .field = key,
                    .sets = {fmt::format("{}={}", key, value)},
                    .command = {},
                    .needs = ways};
    const auto& needs = needs_of_features();
    for (const std::string& name : {feature.sets.front(), key, std::string(field.name)}) {
      const auto found = needs.find(name);
      if (found == needs.end()) continue;
      feature.needs = extend(ways, found->second, table);
      break;
    }
    const bool coordinated = std::ranges::any_of(kCoordinated, [&](std::string_view one) {
      return one == key || one == feature.sets.front();
    });
    if (coordinated) feature.command = Command::kServe;
    features_.push_back(std::move(feature));
  }

  void add_command(const char* name, Command command) {
    features_.push_back({.name = name, .field = {}, .sets = {}, .command = command});
  }

  config::Recipe defaults_;
  config::StringList within_;
  std::vector<Feature> features_;
};

}  // namespace

const std::vector<Feature>& all_features() {
  static const std::vector<Feature> features = List().features();
  return features;
}

}  // namespace thinwire::method

#include "thinwire/plan/memory_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/config/renamed.h"
#include "thinwire/config/values.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"
#include "thinwire/plan/method_cost.h"

namespace thinwire::plan {
namespace {

using Dimension = std::vector<MemoryOption>;

const MemoryOption kAsGiven = {};

// By how far published losses are behind AdamW's at equal tokens (the optimizers' pages).
Dimension optimizers(const config::Recipe& recipe) {
  Dimension chosen = {kAsGiven};
  const auto add = [&](std::string name, std::vector<std::string> fields, int quality_cost) {
    if (name == recipe.optim.method) return;
    chosen.push_back({std::move(name), std::move(fields), quality_cost});
  };
  add("adamw", {"optim.method=adamw"}, 1);
  add("muon", {"optim.method=muon"}, 1);
  add("apollo", {"optim.method=apollo", "apollo.rank=0"}, 3);
  add("scale", {"optim.method=scale"}, 3);
  add("apollo mini",
      {"optim.method=apollo", "apollo.rank=1", "apollo.scaling=tensor", "apollo.scale=11.3"}, 4);
  for (const int64_t share : {4, 8, 16}) {
    const int64_t rank = std::max<int64_t>(recipe.model.hidden / share, 1);
    const int quality_cost = share == 4 ? 4 : share == 8 ? 5 : 6;
    add(fmt::format("galore, rank {}", rank),
        {"optim.method=galore", fmt::format("galore.rank={}", rank)}, quality_cost);
    add(fmt::format("natural_galore, both sides, rank {}", rank),
        {"optim.method=natural_galore", "natural_galore.sides=two",
         fmt::format("natural_galore.rank={}", rank)},
        quality_cost);
  }
  return chosen;
}

Dimension gradients() {
  const std::vector<std::string> layer = {"train.update=layer", "optim.clip_by=previous"};
  const std::vector<std::string> both = {"train.update=layer", "optim.clip_by=previous",
                                         "optim.gradients=projected"};
  const auto in_slabs = [](std::vector<std::string> fields) {
    fields.emplace_back("model.vocab_slabs=8");
    return fields;
  };
  return {kAsGiven,
          {"projected gradients", {"optim.gradients=projected"}, 0},
          {"updates in the backward pass", layer, 1},
          {"updates in the backward pass, in slabs of the vocabulary", in_slabs(layer), 1},
          {"projected gradients, updates in the backward pass", both, 1},
          {"projected gradients, updates in the backward pass, in slabs of the vocabulary",
           in_slabs(both), 1}};
}

Dimension recomputation() {
  return {kAsGiven,
          {"recompute attention", {"model.recompute=attention"}, 0},
          {"recompute blocks", {"model.recompute=block"}, 0},
          {"recompute blocks from inputs in bf16",
           {"model.recompute=block", "model.block_inputs=bf16"},
           1}};
}

Dimension rows(const config::Recipe& recipe) {
  const config::TrainSection& train = recipe.train;
  if (train.batch <= train.workers) return {kAsGiven};
  return {kAsGiven,
          {"one row a pass", {"train.microbatch=1"}, 0},
          {fmt::format("batch of {}", counted(train.workers, "row")),
           {fmt::format("train.batch={}", train.workers), "train.microbatch=0"},
           2}};
}

Dimension sequences(const config::Recipe& recipe) {
  const int64_t half = recipe.train.sequence / 2;
  if (half == 0) return {kAsGiven};
  return {kAsGiven,
          {fmt::format("rows of {} tokens", half), {fmt::format("train.sequence={}", half)}, 4}};
}

Dimension precisions(const config::Recipe& recipe) {
  const bool bf16 = recipe.train.precision == Precision::kBf16;
  const std::string_view other = name_of(bf16 ? Precision::kFp32 : Precision::kBf16);
  const int quality_cost = bf16 ? 0 : 1;
  Dimension formats = {
      kAsGiven,
      {fmt::format("{} products", other), {fmt::format("train.precision={}", other)}, quality_cost},
      {"bf16 weights", {"train.precision=bf16", "train.weights=bf16"}, quality_cost + 1}};
  if (recipe.adapter.kind == method::AdapterKind::kLora) {
    formats.push_back(
        {"8-bit weights", {"train.precision=bf16", "train.weights=int8"}, quality_cost + 1});
    formats.push_back(
        {"4-bit weights", {"train.precision=bf16", "train.weights=nf4"}, quality_cost + 2});
  }
  return formats;
}

Dimension states() {
  return {kAsGiven,
          {"8-bit state", {"optim.state=8bit"}, 1},
          {"8-bit state and bases", {"optim.state=8bit", "optim.bases=8bit"}, 2}};
}

// The cost is in time, on a slow disk.
Dimension places(const config::Recipe& recipe) {
  if (recipe.train.offload) return {kAsGiven};
  return {kAsGiven, {"weights and state in files", {"train.offload=true"}, 1}};
}

class Maker {
 public:
  Maker(const std::filesystem::path& path, std::span<const std::string> overrides,
        double program_bytes)
      : path_(path), program_bytes_(program_bytes) {
    for (const std::string& text : overrides) {
      overrides_.push_back(config::recipe_renames().present_override(text));
    }
  }

  std::vector<MemoryChoice> make() {
    const config::Recipe given = method::load_recipe(path_, overrides_);
    own_ = given.optim.method;
    dimensions_ = {gradients(),       recomputation(), rows(given),  sequences(given),
                   precisions(given), states(),        places(given)};
    for (const MemoryOption& optimizer : optimizers(given)) load(optimizer);
    std::ranges::stable_sort(choices_, {}, [](const MemoryChoice& one) {
      return std::tuple(one.quality_cost, one.flops_per_token(), one.names.size(), one.bytes());
    });
    return std::move(choices_);
  }

 private:
  // Optimizers may have fields of their own in the recipe's file, so each is loaded.
  void load(const MemoryOption& optimizer) {
    std::vector<std::string> all = overrides_;
    std::erase_if(all, [&](const std::string& one) { return sets_again(one, optimizer.fields); });
    all.insert(all.end(), optimizer.fields.begin(), optimizer.fields.end());
    config::Recipe loaded;
    try {
      loaded = method::load_recipe(path_, all);
    } catch (const UsageError&) {
      return;
    }
    std::vector<const MemoryOption*> chosen = {&optimizer};
    combine(chosen, loaded);
  }

  // `recipe` has the fields of what is chosen.
  void combine(std::vector<const MemoryOption*>& chosen, const config::Recipe& recipe) {
    if (chosen.size() > dimensions_.size()) return add(chosen, recipe);
    for (const MemoryOption& option : dimensions_[chosen.size() - 1]) {
      chosen.push_back(&option);
      if (option.fields.empty()) {
        combine(chosen, recipe);
      } else {
        config::Recipe changed = recipe;
        for (const std::string& field : option.fields) set_field(changed, field);
        combine(chosen, changed);
      }
      chosen.pop_back();
    }
  }

  // A combination that the recipe's rules forbid is skipped.
  void add(const std::vector<const MemoryOption*>& chosen, const config::Recipe& recipe) {
    try {
      config::check_recipe(recipe);
      method::check_choices(recipe);
    } catch (const UsageError&) {
      return;
    }
    MemoryChoice choice;
    choice.optimizer = chosen.front()->name.empty() ? own_ : chosen.front()->name;
    choice.recipe = recipe;
    for (const MemoryOption* option : chosen) {
      choice.fields.insert(choice.fields.end(), option->fields.begin(), option->fields.end());
      choice.quality_cost += option->quality_cost;
      if (option != chosen.front() && !option->name.empty()) choice.names.push_back(option->name);
    }
    add_costs(choice);
    choices_.push_back(std::move(choice));
  }

  // "table.field=value"
  static void set_field(config::Recipe& recipe, std::string_view text) {
    const size_t dot = text.find('.'), equals = text.find('=');
    const std::string_view table = text.substr(0, dot);
    const std::string_view name = text.substr(dot + 1, equals - dot - 1);
    for (const auto& [called, section] : recipe.sections()) {
      if (called != table) continue;
      config::Fields fields;
      section->describe(fields);
      const auto field = std::ranges::find(fields.all(), name, &config::Field::name);
      const std::string value(text.substr(equals + 1));
      config::assign(*field, table, value == "true" ? config::Value(true) : config::Value(value));
    }
  }

  static bool sets_again(const std::string& given, const std::vector<std::string>& fields) {
    const std::string name = given.substr(0, given.find('=') + 1);
    return std::ranges::any_of(fields,
                               [&](const std::string& field) { return field.starts_with(name); });
  }

  void add_costs(MemoryChoice& choice) const {
    const PlannedModel model = planned_model(choice.recipe);
    const config::Recipe& recipe = choice.recipe;
    const auto members = static_cast<int>(recipe.train.workers);
    const method::Traffic traffic =
        method::find_method(recipe.sync.method).traffic(recipe, model.tensors, members);
    choice.sent_bytes = traffic.sent_bytes;
    choice.received_bytes = traffic.received_bytes;
    choice.parts = method::memory_parts(recipe, 1);
    choice.parts.push_back({"program", program_bytes_});
    const int64_t rows = (recipe.train.batch + members - 1) / members;
    choice.tokens = static_cast<double>(rows * recipe.train.sequence);
    choice.flops = step_flops(recipe, model.tensors);
  }

  const std::filesystem::path& path_;
  const double program_bytes_;
  std::vector<std::string> overrides_;
  std::string own_;                    // the recipe's optimizer
  std::vector<Dimension> dimensions_;  // besides the optimizer
  std::vector<MemoryChoice> choices_;
};

}  // namespace

double MemoryChoice::bytes() const {
  double sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

std::vector<MemoryChoice> memory_choices(const std::filesystem::path& path,
                                         std::span<const std::string> overrides,
                                         double program_bytes) {
  return Maker(path, overrides, program_bytes).make();
}

std::vector<const MemoryChoice*> best_within(std::span<const MemoryChoice> choices, double limit) {
  std::vector<const MemoryChoice*> best;
  for (const MemoryChoice& choice : choices) {
    const auto same = [&](const MemoryChoice* one) { return one->optimizer == choice.optimizer; };
    if (choice.bytes() <= limit && std::ranges::none_of(best, same)) best.push_back(&choice);
  }
  return best;
}

const MemoryChoice& smallest(std::span<const MemoryChoice> choices) {
  return *std::ranges::min_element(choices, {}, &MemoryChoice::bytes);
}

}  // namespace thinwire::plan

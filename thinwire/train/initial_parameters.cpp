#include "thinwire/train/initial_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/convert/load.h"
#include "thinwire/events/progress.h"
#include "thinwire/method/architectures.h"
#include "thinwire/method/model_spec.h"
#include "thinwire/model/model.h"

namespace thinwire::train {

namespace {

constexpr std::array<std::string_view, 1> kKind = {"architecture"};

// "hidden = 64 (not 128)" for each of the fields that differ. Where `names` has fields that one
// architecture alone has, both models are of that one.
std::vector<std::string> differences(const method::ModelSpec& given,
                                     const method::ModelSpec& wanted,
                                     std::span<const std::string_view> names) {
  const auto theirs = method::field_values(given);
  const auto ours = method::field_values(wanted);
  std::vector<std::string> found;
  for (size_t at = 0; at < std::min(ours.size(), theirs.size()); ++at) {
    const auto& [name, asked] = ours[at];
    const std::string& value = theirs[at].second;
    if (value == asked || std::ranges::find(names, name) == names.end()) continue;
    found.push_back(fmt::format("{} = {} (not {})", name, value, asked));
  }
  return found;
}

bool same_text(const data::Vocabulary& a, const data::Vocabulary& b) {
  if (a.digest() == b.digest()) return true;
  if (a.size() != b.size() || a.eos() != b.eos()) return false;
  for (int32_t token = 0; token < a.size(); ++token) {
    if (a.piece(token) != b.piece(token)) return false;
  }
  return true;
}

void check_vocabulary(const config::Recipe& recipe, const convert::LoadedModel& loaded,
                      const data::Vocabulary* vocabulary) {
  if (vocabulary == nullptr || loaded.vocabulary == nullptr) return;
  if (same_text(*vocabulary, *loaded.vocabulary)) return;
  throw UsageError(fmt::format(
      "[train] init: the tokens of the model in {} stand for other text than those of [data] dir = "
      "{}; prepare the text with data.{}",
      recipe.train.init, recipe.data.dir,
      loaded.vocabulary->file().extension() == ".json"
          ? "vocabulary = \"byte\""
          : fmt::format("vocabulary_model = \"{}\"", loaded.vocabulary->file().string())));
}

void check_model(const config::Recipe& recipe, const convert::LoadedModel& loaded) {
  const method::ModelSpec wanted(recipe);
  const method::Architecture& architecture = method::find_architecture(wanted.architecture);
  auto shape = differences(loaded.model, wanted, kKind);
  if (shape.empty()) shape = differences(loaded.model, wanted, architecture.shape_fields);
  if (!shape.empty()) {
    throw UsageError(
        fmt::format("[train] init: {} holds a model of {}; set [model] and [{}] to its values",
                    recipe.train.init, fmt::join(shape, ", "), wanted.architecture));
  }
  for (const std::string& field :
       differences(loaded.model, wanted, architecture.arithmetic_fields)) {
    events::print_message(
        fmt::format("[train] init: the model in {} was trained with {}", recipe.train.init, field));
  }
}

}  // namespace

void set_initial_parameters(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                            tensor::Arena& params) {
  if (recipe.train.init.empty()) {
    model::init_parameters(params, method::ModelSpec(recipe),
                           derive_seed(static_cast<uint64_t>(recipe.run.seed), "init"));
    return;
  }
  const convert::LoadedModel loaded = convert::load_model(recipe.train.init);
  check_vocabulary(recipe, loaded, vocabulary);
  check_model(recipe, loaded);
  std::copy(loaded.params->all().begin(), loaded.params->all().end(), params.all().begin());
}

void InitialParameters::copy_to(tensor::Arena& params) {
  const std::span<const float> values = values_->all();
  std::copy(values.begin(), values.end(), params.all().begin());
  if (left_.fetch_sub(1) == 1) values_.reset();
}

}  // namespace thinwire::train

#include "thinwire/train/initial_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/config/changes.h"
#include "thinwire/config/values.h"
#include "thinwire/convert/end_tokens.h"
#include "thinwire/convert/hf_origin.h"
#include "thinwire/convert/load.h"
#include "thinwire/data/chat/chat_template.h"
#include "thinwire/method/registry.h"

namespace thinwire::train {
namespace {

constexpr std::string_view kModelTable = "model";
constexpr std::array<std::string_view, 4> kRunsOwn = {"model.init_std", "model.recompute",
                                                      "model.block_inputs", "model.vocab_slabs"};

bool is_of_model(const std::string& name, const std::string& architecture) {
  const std::string_view table = std::string_view(name).substr(0, name.find('.'));
  return (table == kModelTable || table == architecture) &&
         std::ranges::find(kRunsOwn, name) == kRunsOwn.end();
}

// A value of the same field of another recipe.
void copy_value(const config::Field& from, const config::Field& to) {
  std::visit([&](auto target) { *target = *std::get<decltype(target)>(from.target); }, to.target);
}

// The chat template that a model came with; empty: none that can be read.
std::string own_template(const convert::HfOrigin& origin) {
  try {
    const auto chat = data::chat_template_among(origin);
    return chat == nullptr ? std::string() : chat->source();
  } catch (const Error&) {
    return {};
  }
}

bool leaves_open(const config::Recipe& recipe, const std::string& name,
                 const config::Field& field) {
  const auto* const* count = std::get_if<int64_t*>(&field.target);
  return !recipe.given.contains(name) || (count != nullptr && **count == 0);
}

// Takes what the recipe leaves open; returns "model.heads = 8 (the recipe says 4)" for each field
// that contradicts.
std::vector<std::string> complete(config::Recipe& recipe, config::Recipe origin) {
  std::vector<std::string> contradictions;
  config::visit_fields(
      recipe, origin,
      [&](const std::string& name, const config::Field& ours, const config::Field& theirs) {
        if (!is_of_model(name, origin.model.architecture)) return;
        if (leaves_open(recipe, name, ours)) return copy_value(theirs, ours);
        const std::string given = config::print_value(ours);
        const std::string holds = config::print_value(theirs);
        if (given == holds) return;
        contradictions.push_back(fmt::format("{} = {} (the recipe says {})", name, holds, given));
      });
  return contradictions;
}

config::Recipe describe_initial_model(const std::string& init) {
  try {
    return convert::describe_model(init);
  } catch (const Error& error) {
    throw Error(fmt::format("[train] init: {}", error.what()));
  }
}

}  // namespace

void take_initial_model(config::Recipe& recipe) {
  if (recipe.train.init.empty() || method::is_external(recipe)) return;
  const auto contradictions = complete(recipe, describe_initial_model(recipe.train.init));
  if (!contradictions.empty()) {
    throw UsageError(
        fmt::format("[train] init: {} holds a model with {}; leave these fields out, and they are "
                    "taken from there",
                    recipe.train.init, fmt::join(contradictions, ", ")));
  }
  method::check_choices(recipe);
}

void take_resumed_model(config::Recipe& recipe, const fs::path& checkpoint) {
  if (recipe.train.init.empty() || method::is_external(recipe)) return;
  complete(recipe, convert::describe_model(checkpoint));
  method::check_choices(recipe);
}

namespace {

// The files of the folder that the run's model came from, with the chat template of its data, which
// need not be the model's own.
convert::HfOrigin origin_of_run(const config::Recipe& recipe, const fs::path& checkpoint) {
  if (!checkpoint.empty()) return convert::origin_of(checkpoint);
  convert::HfOrigin origin;
  if (method::is_external(recipe)) return origin;
  if (!recipe.train.init.empty()) origin = convert::origin_of(recipe.train.init);
  const fs::path file = fs::path(recipe.data.dir) / data::kChatTemplateFile;
  if (!has_chats(recipe.data.records) || !is_file(file)) return origin;
  std::string source = read_text_file(file);
  if (source != own_template(origin)) origin[data::kChatTemplateFile] = std::move(source);
  return origin;
}

}  // namespace

std::map<std::string, std::string> origin_files(const config::Recipe& recipe,
                                                const fs::path& checkpoint) {
  const convert::HfOrigin origin = origin_of_run(recipe, checkpoint);
  if (origin.empty()) return {};
  return {{convert::kOriginFile, convert::print_origin(origin)}};
}

std::vector<fs::path> initial_model_files(const config::Recipe& recipe) {
  try {
    return convert::model_files(recipe.train.init);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("[train] init: {}", error.what()));
  }
}

std::string turn_end_note(const config::Recipe& recipe, const data::Vocabulary& vocabulary,
                          const fs::path& checkpoint) {
  if (!has_chats(recipe.data.records)) return {};
  return convert::turn_end_note(origin_of_run(recipe, checkpoint), vocabulary);
}

}  // namespace thinwire::train

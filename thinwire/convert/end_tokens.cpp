#include "thinwire/convert/end_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/chat/chat_template.h"

namespace thinwire::convert {
namespace {

bool contains(const std::vector<int32_t>& tokens, int32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// An eos_token_id as a list.
HfJson listed(const HfJson& eos_token_id) {
  if (eos_token_id.is_array()) return eos_token_id;
  return eos_token_id.is_null() ? HfJson::array() : HfJson::array({eos_token_id});
}

HfJson eos_in(const HfOrigin& origin, const char* file) {
  const auto found = origin.find(file);
  const HfJson json = found == origin.end() ? HfJson() : try_parse_json<HfJson>(found->second);
  return json.is_object() ? json.value("eos_token_id", HfJson()) : HfJson();
}

bool is_end(const HfJson& id, const data::Vocabulary& vocabulary) {
  if (!id.is_number_unsigned() || id >= vocabulary.size()) return false;
  return id == vocabulary.eos() || vocabulary.is_added(id.get<int32_t>());
}

// -1: there is no template, or none that can be read, or its turns end with text.
int32_t turn_end_of(const HfOrigin& origin, const data::Vocabulary& vocabulary) {
  try {
    const auto chat = data::chat_template_among(origin);
    return chat == nullptr ? -1 : data::turn_end(*chat, vocabulary);
  } catch (const Error&) {
    return -1;
  }
}

// Without the chat template's.
std::vector<int32_t> ends_of_model(const HfOrigin& origin, const data::Vocabulary& vocabulary) {
  std::vector<int32_t> ends;
  if (vocabulary.eos() >= 0) ends.push_back(vocabulary.eos());
  for (const char* file : {"config.json", "generation_config.json"}) {
    for (const HfJson& id : listed(eos_in(origin, file))) {
      if (!is_end(id, vocabulary)) continue;
      const auto token = id.get<int32_t>();
      if (!contains(ends, token)) ends.push_back(token);
    }
  }
  return ends;
}

}  // namespace

std::vector<int32_t> end_tokens(const HfOrigin& origin, const data::Vocabulary& vocabulary) {
  std::vector<int32_t> ends = ends_of_model(origin, vocabulary);
  const int32_t turn = turn_end_of(origin, vocabulary);
  if (turn >= 0 && !contains(ends, turn)) ends.push_back(turn);
  return ends;
}

bool names_ends(const HfJson& eos_token_id, const data::Vocabulary& vocabulary) {
  const HfJson ids = listed(eos_token_id);
  return !ids.empty() &&
         std::ranges::all_of(ids, [&](const HfJson& id) { return is_end(id, vocabulary); });
}

HfJson eos_for_generation(const HfOrigin& origin, const data::Vocabulary& vocabulary) {
  HfJson ids = eos_in(origin, "generation_config.json");
  if (!names_ends(ids, vocabulary)) ids = eos_in(origin, "config.json");
  if (!names_ends(ids, vocabulary)) ids = HfJson();
  HfJson list = listed(ids);
  for (const int32_t token : end_tokens(origin, vocabulary)) {
    if (std::ranges::find(list, HfJson(token)) == list.end()) list.push_back(token);
  }
  if (list.empty()) return nullptr;
  return list.size() == 1 && !ids.is_array() ? list[0] : list;
}

std::string turn_end_note(const HfOrigin& origin, const data::Vocabulary& vocabulary) {
  const int32_t turn = turn_end_of(origin, vocabulary);
  const std::vector<int32_t> ends = ends_of_model(origin, vocabulary);
  if (turn < 0 || contains(ends, turn)) return {};
  return fmt::format(
      "The chat template ends turns with {} (token {}), which is not an end token of the model{}: "
      "`thinwire generate` stops at it too, and an export lists it in generation_config.json.",
      vocabulary.name(turn), turn,
      vocabulary.eos() < 0
          ? std::string()
          : fmt::format(", as {} ({}) is", vocabulary.name(vocabulary.eos()), vocabulary.eos()));
}

}  // namespace thinwire::convert

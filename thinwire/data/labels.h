// Texts with a class, for encoders:
//   {"text": "A fine film.", "label": 1}
//   {"text": "It rains.", "text_pair": "The sun shines.", "label": "contradiction"}
//   {"text": "It rains.", "text_pair": "Rain falls.", "label": 4.6}
// A class is its number, from 0 on, or its name in data.labels. With records = "numbers" the label
// is any number (base/number_tokens.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "thinwire/config/sections.h"
#include "thinwire/data/records.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

// The most classes: each is a token of any vocabulary that a shard keeps in two bytes.
inline constexpr int64_t kMostClasses = 65536;

// Otherwise what is wrong with the line.
tl::expected<Record, std::string> read_labelled(const nlohmann::ordered_json& json,
                                                const config::DataSection& data);

// The tokens of a text, or of two, as RoBERTa reads them: <s> text </s>, or <s> text </s></s>
// second text </s>; without <s> if the vocabulary puts nothing before texts. encode(text, tokens)
// appends the tokens of a text.
template <typename Encode>
std::vector<int32_t> classified_tokens(const Vocabulary& vocabulary, std::string_view text,
                                       const std::optional<std::string_view>& second,
                                       const Encode& encode) {
  std::vector<int32_t> tokens;
  if (vocabulary.begin() >= 0) tokens.push_back(vocabulary.begin());
  encode(text, tokens);
  if (second) {
    tokens.insert(tokens.end(), 2, vocabulary.eos());
    encode(*second, tokens);
  }
  tokens.push_back(vocabulary.eos());
  return tokens;
}

// The same for a few texts.
std::vector<int32_t> encode_classified(const Vocabulary& vocabulary, std::string_view text,
                                       const std::optional<std::string>& second);

}  // namespace thinwire::data

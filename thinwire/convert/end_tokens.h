// The tokens that end a generated text. A model may have several: its tokenizer's EOS, those that
// config.json and generation_config.json list, and the one with which its chat template ends turns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/convert/hf_fields.h"
#include "thinwire/convert/hf_origin.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::convert {

// All of them, each once; the vocabulary's EOS first, if it has one.
std::vector<int32_t> end_tokens(const HfOrigin& origin, const data::Vocabulary& vocabulary);

// The eos_token_id of a generation_config.json that stops at all of them: that of the file that
// came with the model (or else of its config.json), and those that it lacks behind it. A number, or
// a list of several; null for none.
HfJson eos_for_generation(const HfOrigin& origin, const data::Vocabulary& vocabulary);

// Whether a value of eos_token_id names nothing but special or added tokens of the vocabulary.
bool names_ends(const HfJson& eos_token_id, const data::Vocabulary& vocabulary);

// A sentence that says so if the chat template ends turns with another token than those of the
// tokenizer, config.json and generation_config.json; else empty.
std::string turn_end_note(const HfOrigin& origin, const data::Vocabulary& vocabulary);

}  // namespace thinwire::convert

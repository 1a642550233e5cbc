// Trains byte-level BPE (Sennrich et al. 2016, arXiv 1508.07909; on bytes: Radford et al. 2019,
// GPT-2) and writes it as a tokenizer.json.
//
// Text is split into words by the pattern of Qwen 2, which takes digits one by one. The vocabulary
// is that of the tokenizers package's BpeTrainer(special_tokens=["<|endoftext|>"], min_frequency=2,
// initial_alphabet=ByteLevel.alphabet()): <|endoftext|>, which ends texts, then the 256 bytes in
// the order of their characters (stages.h), then a token for each merge. The pair that
// occurs most often is merged next; of several, the one of the lower tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace thinwire::data {

// The part of a tokenizer.json that splits a text as Qwen 2 does.
nlohmann::ordered_json qwen2_pre_tokenizer();

// next() returns the training text, valid UTF-8, piece by piece and nullptr at its end; a piece
// stays valid until the next call. Returns the tokenizer as Thinwire stores it
// (tokenizer_vocabulary.h), with `size` tokens; the same text gives the same bytes. waiting() is
// called often, and an exception from it ends the call. Throws Error naming data.vocabulary_size
// where it is too small for the bytes or more than the text gives.
std::string train_byte_bpe(const std::function<const std::string*()>& next, int64_t size,
                           const std::function<void()>& waiting = {});

}  // namespace thinwire::data

// How evaluation turns texts into tokens: exactly as the LM evaluation harness does for a Hugging
// Face model (lm_eval 0.4, models/huggingface.py), so that log-likelihoods are the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/data/encoder.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/model/scorer.h"

namespace thinwire::eval {

// Tokens of which those from `scored` on are predicted.
struct Prompt {
  std::vector<int32_t> tokens;
  int64_t scored = 1;
  int64_t cut = 0;       // tokens before them that the context had no room for
  int64_t unscored = 0;  // how many of these would have been predicted

  model::ScoredText text() const { return {tokens, scored}; }
};

// Used by one thread. The vocabulary must outlive it.
class Prompter {
 public:
  // begin: the token with which texts begin; -1: none. context: the most tokens that are fed to the
  // model at once; what is longer loses tokens at its beginning.
  Prompter(const data::Vocabulary& vocabulary, int32_t begin, int64_t context);

  // A continuation of a context, encoded together; white space at the context's end counts as the
  // continuation's. If it is longer than the context, its last tokens are scored. Throws Error
  // for characters that the vocabulary cannot spell, and for a continuation without tokens. Where a
  // text has the name of the unknown token, as "<unk>", that token is scored like any other.
  Prompt continuation(const std::string& context, const std::string& continuation);

  // What precedes a text of at most `room` tokens to generate; never empty, and nothing of it is
  // scored. Throws Error as above, and if `room` leaves nothing of the context.
  Prompt generation_prompt(const std::string& text, int64_t room);

  // A whole text, in windows that each see one token of the one before (the last: a full window).
  // As in the harness, the token with which texts begin is itself predicted once, after itself.
  // Throws Error as above; a text without tokens has no windows.
  std::vector<Prompt> windows(const std::string& text);

 private:
  std::vector<int32_t> encode(const std::string& text, bool with_begin);
  void require_spelling(std::string_view text, const std::vector<int32_t>& tokens);
  bool spells_unknown(std::string_view text, std::string_view name);
  int32_t prefix() const;  // stands before texts that are scored from their first token on

  const data::Vocabulary& vocabulary_;
  data::Encoder encoder_;
  const int32_t begin_;
  const int64_t context_;
  std::string last_context_;  // choices share theirs
  std::vector<int32_t> last_tokens_;
};

}  // namespace thinwire::eval

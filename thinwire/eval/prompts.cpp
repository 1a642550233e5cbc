#include "thinwire/eval/prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/data/utf8.h"
#include "thinwire/eval/text_edits.h"

namespace thinwire::eval {
namespace {

using Tokens = std::vector<int32_t>;

bool has_token(const Tokens& tokens, int32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

}  // namespace

Prompter::Prompter(const data::Vocabulary& vocabulary, int32_t begin, int64_t context)
    : vocabulary_(vocabulary), encoder_(vocabulary), begin_(begin), context_(context) {}

int32_t Prompter::prefix() const {
  if (begin_ >= 0) return begin_;
  if (vocabulary_.bos() >= 0) return vocabulary_.bos();
  if (vocabulary_.eos() >= 0) return vocabulary_.eos();
  throw Error("the vocabulary has no token that could stand before a text");
}

// A character that the vocabulary cannot spell becomes its unknown token, or no token at all.
void Prompter::require_spelling(std::string_view text, const Tokens& tokens) {
  const bool unknown = vocabulary_.unknown() >= 0 && has_token(tokens, vocabulary_.unknown());
  if (!unknown && !(tokens.empty() && !strip(text).empty())) return;
  std::string space;  // white space without a token of its own may still begin longer ones
  while (!text.empty()) {
    const size_t bytes = data::utf8_step(text).bytes;
    const std::string character(text.substr(0, bytes));
    text.remove_prefix(bytes);
    Tokens alone;
    encoder_.encode(character, alone);
    const bool spelled = !alone.empty() && !has_token(alone, vocabulary_.unknown());
    if (spelled) continue;
    if (strip(character).empty()) {
      if (space.empty()) space = character;
      continue;
    }
    throw Error(fmt::format("{} has no tokens for '{}'", vocabulary_.file().string(), character));
  }
  throw Error(fmt::format("{} has no tokens for {}", vocabulary_.file().string(),
                          space == "\n" ? "line breaks" : fmt::format("'{}'", space)));
}

Tokens Prompter::encode(const std::string& text, bool with_begin) {
  Tokens tokens;
  encoder_.encode(text, tokens);
  require_spelling(text, tokens);
  if (with_begin && begin_ >= 0) tokens.insert(tokens.begin(), begin_);
  return tokens;
}

Prompt Prompter::continuation(const std::string& context, const std::string& continuation) {
  const size_t spaces = trailing_space(context);
  const std::string before = context.substr(0, context.size() - spaces);
  const std::string after = context.substr(before.size()) + continuation;
  Tokens answer;
  Prompt prompt;
  if (before.empty()) {
    answer = encode(after, false);
    prompt.tokens = {prefix()};
    if (!answer.empty() && answer.front() == prefix()) answer.erase(answer.begin());
  } else {
    if (last_tokens_.empty() || before != last_context_) {
      last_tokens_ = encode(before, true);
      last_context_ = before;
    }
    prompt.tokens = last_tokens_;
    answer = encode(before + after, true);
    answer.erase(answer.begin(), answer.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                      answer.size(), prompt.tokens.size())));
  }
  if (answer.empty() || prompt.tokens.empty() || std::ssize(answer) > context_) {
    throw Error(fmt::format("'{}' after '{}' has {} tokens; expected 1 to {} (the context)", after,
                            before, answer.size(), context_));
  }
  prompt.tokens.insert(prompt.tokens.end(), answer.begin(), answer.end());
  const int64_t excess = std::ssize(prompt.tokens) - (context_ + 1);
  if (excess > 0) prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.begin() + excess);
  prompt.scored = std::ssize(prompt.tokens) - std::ssize(answer);
  return prompt;
}

Tokens Prompter::generation_prompt(const std::string& text, int64_t room) {
  if (room >= context_) {
    throw Error(fmt::format(
        "a text of up to {} tokens leaves no room for its prompt in the context of {}; lower the "
        "task's max_tokens, or set --context",
        room, context_));
  }
  Tokens tokens = encode(text, true);
  if (tokens.empty()) tokens.push_back(prefix());
  const int64_t excess = std::ssize(tokens) - (context_ - room);
  if (excess > 0) tokens.erase(tokens.begin(), tokens.begin() + excess);
  return tokens;
}

std::vector<Prompt> Prompter::windows(const std::string& text) {
  Tokens tokens = encode(text, true);
  const int64_t all = std::ssize(tokens);
  tokens.insert(tokens.begin(), prefix());
  std::vector<Prompt> windows;
  for (int64_t done = 0; done < all;) {  // predicts tokens [done + 1, end], counted with the prefix
    const int64_t count = std::min(context_, all - done), end = done + count;
    const int64_t first = done == 0 ? 0 : end - context_;
    windows.push_back({{tokens.begin() + first, tokens.begin() + end + 1}, done + 1 - first});
    done = end;
  }
  return windows;
}

}  // namespace thinwire::eval

#include "thinwire/eval/prompts.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/data/utf8.h"
#include "thinwire/eval/text_template.h"

namespace thinwire::eval {
namespace {

using Tokens = std::vector<int32_t>;

bool has_token(const Tokens& tokens, int32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// For messages: enough of a text to find it.
std::string beginning_of(std::string_view text) {
  constexpr size_t kBytes = 40;
  if (text.size() <= kBytes) return std::string(text);
  return std::string(text.substr(0, data::valid_utf8_prefix(text.substr(0, kBytes)))) + "...";
}

// Cuts the prompt at its beginning to at most `count` tokens.
void keep_last(Prompt& prompt, int64_t count) {
  prompt.cut = std::max<int64_t>(0, std::ssize(prompt.tokens) - count);
  prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.begin() + prompt.cut);
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
  const std::string name = unknown ? vocabulary_.name(vocabulary_.unknown()) : "";
  if (unknown && spells_unknown(text, name)) return;
  const std::string place = fmt::format("in the text \"{}\"", beginning_of(text));
  std::string space;  // white space without a token of its own may still begin longer ones
  while (!text.empty()) {
    if (!name.empty() && text.starts_with(name)) {
      text.remove_prefix(name.size());
      continue;
    }
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
    throw Error(
        fmt::format("{} has no tokens for '{}' {}", vocabulary_.file().string(), character, place));
  }
  if (space.empty()) return;  // each character has tokens: what is unknown is a name in the text
  throw Error(fmt::format("{} has no tokens for {} {}", vocabulary_.file().string(),
                          space == "\n" ? "line breaks" : fmt::format("'{}'", space), place));
}

// Whether the unknown token stands only where the text has its name, as WikiText has "<unk>".
bool Prompter::spells_unknown(std::string_view text, std::string_view name) {
  if (name.empty() || text.find(name) == std::string_view::npos) return false;
  while (true) {
    const size_t end = std::min(text.find(name), text.size());
    Tokens tokens;
    encoder_.encode(text.substr(0, end), tokens);
    if (has_token(tokens, vocabulary_.unknown())) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + name.size());
  }
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
  if (answer.empty() || prompt.tokens.empty()) {
    throw Error(fmt::format("'{}' after '{}' has no tokens; expected at least 1", after, before));
  }
  prompt.tokens.insert(prompt.tokens.end(), answer.begin(), answer.end());
  keep_last(prompt, context_ + 1);
  prompt.unscored = std::max<int64_t>(0, std::ssize(answer) - context_);
  prompt.scored = std::ssize(prompt.tokens) - (std::ssize(answer) - prompt.unscored);
  return prompt;
}

Prompt Prompter::generation_prompt(const std::string& text, int64_t room) {
  if (room >= context_) {
    throw Error(fmt::format(
        "a text of up to {} tokens leaves no room for its prompt in the context of {}; lower the "
        "task's max_tokens, or set --context",
        room, context_));
  }
  Prompt prompt{encode(text, true)};
  if (prompt.tokens.empty()) prompt.tokens.push_back(prefix());
  keep_last(prompt, context_ - room);
  prompt.scored = std::ssize(prompt.tokens);
  return prompt;
}

std::vector<Prompt> Prompter::windows(const std::string& text) {
  Tokens tokens = encode(text, true);
  const int64_t all = std::ssize(tokens);
  tokens.insert(tokens.begin(), prefix());
  std::vector<Prompt> windows;
  for (int64_t done = 0; done < all;) {  // predicts tokens [done + 1, end], counted with the prefix
    const int64_t count = std::min(context_, all - done), end = done + count;
    const int64_t first = done == 0 ? 0 : end - context_;
    windows.push_back(
        {.tokens = {tokens.begin() + first, tokens.begin() + end + 1}, .scored = done + 1 - first});
    done = end;
  }
  return windows;
}

}  // namespace thinwire::eval

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "thinwire/base/error.h"
#include "thinwire/data/chat/syntax.h"

namespace thinwire::data::chat {
namespace {

constexpr std::string_view kSpace = " \t\n\r\v\f";
constexpr size_t kMaxTokens = 500;  // of a tag: bounds how deeply an expression is nested

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Piece> lex() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      add_text(tag);
      if (tag == std::string::npos) break;
      at_ = tag + 2;
      if (source_[tag + 1] == '#') {
        lex_comment();
      } else {
        lex_tag(source_[tag + 1] == '{');
      }
    }
    return std::move(pieces_);
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    throw Error(fmt::format("the chat template, line {}: {}", line(), why));
  }

  // The line of at_, which only grows: nothing is counted twice.
  size_t line() const {
    const auto begin = source_.begin();
    const auto end = static_cast<std::ptrdiff_t>(std::min(at_, source_.size()));
    line_ += static_cast<size_t>(std::count(begin + counted_, begin + end, '\n'));
    counted_ = end;
    return line_;
  }

  size_t next_tag() const {
    for (size_t tag = source_.find('{', at_); tag != std::string::npos;
         tag = source_.find('{', tag + 1)) {
      const char kind = tag + 1 < source_.size() ? source_[tag + 1] : ' ';
      if (kind == '{' || kind == '%' || kind == '#') return tag;
    }
    return std::string::npos;
  }

  // The text up to the tag, without what the tag takes away before it.
  void add_text(size_t tag) {
    std::string text = source_.substr(at_, tag == std::string::npos ? tag : tag - at_);
    if (tag != std::string::npos && tag + 2 < source_.size()) {
      const char mark = source_[tag + 2];
      if (mark == '-') {
        text.erase(text.find_last_not_of(kSpace) + 1);
      } else if (source_[tag + 1] != '{' && mark != '+') {
        const size_t visible = text.find_last_not_of(" \t");
        const bool whole_line = visible == std::string::npos ? at_ == 0 || source_[at_ - 1] == '\n'
                                                             : text[visible] == '\n';
        if (whole_line) text.erase(visible + 1);
      }
    }
    if (!text.empty()) pieces_.push_back({Piece::Kind::kText, std::move(text), {}, line()});
  }

  // Takes away what follows a tag that ends at at_.
  void end_tag(bool strips, bool block) {
    if (strips) {
      at_ = std::min(source_.find_first_not_of(kSpace, at_), source_.size());
    } else if (block && at_ < source_.size() && source_[at_] == '\n') {
      ++at_;
    }
  }

  void lex_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("a comment does not end");
    const bool strips = source_[end - 1] == '-';
    at_ = end + 2;
    end_tag(strips, true);
  }

  void lex_tag(bool output) {
    Piece piece{output ? Piece::Kind::kOutput : Piece::Kind::kStatement, {}, {}, line()};
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) ++at_;
    const std::string end = output ? "}}" : "%}";
    int open = 0;
    while (true) {
      at_ = std::min(source_.find_first_not_of(kSpace, at_), source_.size());
      if (at_ == source_.size()) fail("a tag does not end");
      const bool signed_end = source_[at_] == '-' || source_[at_] == '+';
      if (open == 0 && source_.compare(at_ + (signed_end ? 1 : 0), 2, end) == 0) {
        const bool strips = source_[at_] == '-';
        at_ += signed_end ? 3 : 2;
        piece.tokens.emplace_back();
        pieces_.push_back(std::move(piece));
        return end_tag(strips, !output);
      }
      piece.tokens.push_back(token());
      if (piece.tokens.size() > kMaxTokens) {
        fail(fmt::format("a tag of more than {} names, texts and operators", kMaxTokens));
      }
      const Token& last = piece.tokens.back();
      if (last.kind != TokenKind::kOperator) continue;
      if (last.text == "{") ++open;
      if (last.text == "}") --open;
    }
  }

  Token token() {
    const char c = source_[at_];
    if (c == '"' || c == '\'') return string(c);
    const bool number = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (number || is_name(c)) {
      const size_t begin = at_;
      while (at_ < source_.size() && (is_name(source_[at_]) || (number && source_[at_] == '.'))) {
        ++at_;
      }
      return {number ? TokenKind::kNumber : TokenKind::kName, source_.substr(begin, at_ - begin)};
    }
    for (const std::string_view two : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (source_.compare(at_, 2, two) != 0) continue;
      at_ += 2;
      return {TokenKind::kOperator, std::string(two)};
    }
    if (std::string_view("+-*/%~<>=()[]{}.,:|").find(c) == std::string_view::npos) {
      fail(fmt::format("'{}' is not understood", c));
    }
    ++at_;
    return {TokenKind::kOperator, std::string(1, c)};
  }

  Token string(char quote) {
    Token result{TokenKind::kString, {}};
    for (++at_; at_ < source_.size() && source_[at_] != quote; ++at_) {
      if (source_[at_] != '\\') {
        result.text += source_[at_];
        continue;
      }
      if (++at_ == source_.size()) break;
      constexpr std::string_view kLetters = "ntrfvb\\'\"";
      constexpr std::string_view kMeanings = "\n\t\r\f\v\b\\'\"";
      const size_t letter = kLetters.find(source_[at_]);
      if (letter == std::string_view::npos) {
        fail(fmt::format("the escape \\{} in a string is not supported", source_[at_]));
      }
      result.text += kMeanings[letter];
    }
    if (at_ >= source_.size()) fail("a string does not end");
    ++at_;
    return result;
  }

  const std::string source_;
  size_t at_ = 0;
  mutable std::ptrdiff_t counted_ = 0;  // up to where lines are counted
  mutable size_t line_ = 1;
  std::vector<Piece> pieces_;
};

}  // namespace

std::vector<Piece> lex_template(std::string source) {
  std::erase(source, '\r');
  if (source.ends_with('\n')) source.pop_back();
  return Lexer(std::move(source)).lex();
}

}  // namespace thinwire::data::chat

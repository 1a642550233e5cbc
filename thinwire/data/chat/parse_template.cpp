#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/data/chat/syntax.h"

namespace thinwire::data::chat {
namespace {

using Kind = Statement::Kind;

constexpr int kDeepest = 100;  // statements within each other

class BodyParser {
 public:
  explicit BodyParser(const std::vector<Piece>& pieces) : pieces_(pieces) {}

  // Up to a statement that begins with one of `ends`, which is left for the caller; with none, to
  // the end of the template.
  Body parse(std::initializer_list<std::string_view> ends) {
    Body body;
    for (; at_ < pieces_.size(); ++at_) {
      const Piece& piece = pieces_[at_];
      if (piece.kind == Piece::Kind::kText) {
        body.push_back({Kind::kText, piece.line, piece.text});
        continue;
      }
      token_ = 0;
      if (piece.kind == Piece::Kind::kOutput) {
        Statement statement{Kind::kOutput, piece.line};
        statement.expressions.push_back(last_expression());
        body.push_back(std::move(statement));
        continue;
      }
      const std::string& word = piece.tokens[token_].text;
      if (std::ranges::find(ends, word) != ends.end()) return body;
      ++token_;
      body.push_back(statement(word));
    }
    if (ends.size() > 0) {
      throw Error(fmt::format("the chat template ends before {{% {} %}}", *(ends.end() - 1)));
    }
    return body;
  }

 private:
  [[noreturn]] void fail(std::string_view why) const {
    throw Error(fmt::format("the chat template, line {}: {}", pieces_[at_].line, why));
  }

  const Token& token() const { return pieces_[at_].tokens[token_]; }

  Expression expression() {
    try {
      return parse_expression(pieces_[at_].tokens, token_);
    } catch (const Error& error) {
      fail(error.what());
    } catch (const nlohmann::json::exception&) {
      fail("a number is not understood");
    }
  }

  void end() const {
    if (token().kind != TokenKind::kEnd) fail(fmt::format("'{}' is not expected", token().text));
  }

  Expression last_expression() {
    Expression result = expression();
    end();
    return result;
  }

  std::string name() {
    if (token().kind != TokenKind::kName) fail("a name is expected");
    return pieces_[at_].tokens[token_++].text;
  }

  bool take(std::string_view text) {
    if (token().kind == TokenKind::kString || token().text != text) return false;
    ++token_;
    return true;
  }

  Statement statement(const std::string& word) {
    if (word == "if") return parse_if();
    if (word == "for") return parse_for();
    if (word == "set") return parse_set();
    if (word == "generation") {
      Statement result{Kind::kGeneration, pieces_[at_].line};
      result.bodies.push_back(body_after({"endgeneration"}));
      return result;
    }
    if (word == "break" || word == "continue") {
      return {word == "break" ? Kind::kBreak : Kind::kContinue, pieces_[at_].line};
    }
    fail(
        fmt::format("the statement {} is not supported; if, for, set, generation, break and "
                    "continue are",
                    word));
  }

  // The statements behind the present one; then token_ is at the word that ends them.
  Body body_after(std::initializer_list<std::string_view> ends) {
    end();
    if (++depth_ > kDeepest) fail(fmt::format("more than {} nested statements", kDeepest));
    ++at_;
    Body body = parse(ends);
    token_ = 0;
    --depth_;
    return body;
  }

  Statement parse_if() {
    Statement result{Kind::kIf, pieces_[at_].line};
    while (true) {
      result.expressions.push_back(expression());
      result.bodies.push_back(body_after({"elif", "else", "endif"}));
      if (!take("elif")) break;
    }
    if (take("else")) result.bodies.push_back(body_after({"endif"}));
    return result;
  }

  Statement parse_for() {
    Statement result{Kind::kFor, pieces_[at_].line};
    result.names.push_back(name());
    while (take(",")) result.names.push_back(name());
    if (!take("in")) fail("'in' is expected");
    Expression what = expression();
    // "for x in y if z" reads as a choice without else.
    if (what.kind == ExpressionKind::kChoice && what.parts.size() == 2) {
      result.expressions.push_back(std::move(what.parts[1]));
      result.expressions.push_back(std::move(what.parts[0]));
    } else {
      result.expressions.push_back(std::move(what));
    }
    if (take("recursive")) fail("a recursive for is not supported");
    result.bodies.push_back(body_after({"else", "endfor"}));
    if (take("else")) result.bodies.push_back(body_after({"endfor"}));
    return result;
  }

  Statement parse_set() {
    Statement result{Kind::kSet, pieces_[at_].line};
    result.names.push_back(name());
    if (take(".")) result.names.push_back(name());
    if (!take("=")) fail("a set without '=' is not supported");
    result.expressions.push_back(last_expression());
    return result;
  }

  const std::vector<Piece>& pieces_;
  int depth_ = 0;
  size_t at_ = 0;
  size_t token_ = 0;
};

}  // namespace

Body parse_template(const std::vector<Piece>& pieces) { return BodyParser(pieces).parse({}); }

}  // namespace thinwire::data::chat

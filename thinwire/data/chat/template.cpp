#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/chat/chat_template.h"
#include "thinwire/data/chat/evaluate.h"
#include "thinwire/data/chat/syntax.h"

namespace thinwire::data {
namespace {

using chat::Body;
using chat::Expression;
using chat::Statement;
using chat::Value;
using Kind = Statement::Kind;

enum class Flow : uint8_t { kOn, kBreak, kContinue };

bool deeper_than(int levels, const Value& value) {
  return value.is_structured() && (levels == 0 || std::ranges::any_of(value, [&](const auto& part) {
                                     return deeper_than(levels - 1, part);
                                   }));
}

bool has_generation(const Body& body) {
  return std::ranges::any_of(body, [](const Statement& statement) {
    return statement.kind == Kind::kGeneration ||
           std::ranges::any_of(statement.bodies, has_generation);
  });
}

class Renderer {
 public:
  explicit Renderer(const Value& variables) : scopes_(variables) {}

  Flow run(const Body& body) {
    for (const Statement& statement : body) {
      const Flow flow = run_at(statement);
      if (flow != Flow::kOn) return flow;
    }
    return Flow::kOn;
  }

  Rendered take() { return std::move(out_); }

 private:
  // Names the statement's line in errors, once.
  Flow run_at(const Statement& statement) {
    try {
      return run(statement);
    } catch (const Error& error) {
      const std::string_view what = error.what();
      if (what.starts_with("the chat template")) throw;
      throw Error(fmt::format("the chat template, line {}: {}", statement.line, what));
    }
  }

  Flow run(const Statement& statement) {
    switch (statement.kind) {
      case Kind::kText:
        out_.text += statement.text;
        break;
      case Kind::kOutput:
        out_.text += chat::printed(evaluate(statement.expressions[0]));
        break;
      case Kind::kIf:
        return run_if(statement);
      case Kind::kFor:
        return run_for(statement);
      case Kind::kSet:
        set(statement);
        break;
      case Kind::kGeneration: {
        const size_t begin = out_.text.size();
        const Flow flow = run(statement.bodies[0]);
        out_.generated.push_back({begin, out_.text.size()});
        return flow;
      }
      case Kind::kBreak:
        return Flow::kBreak;
      case Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kOn;
  }

  Value evaluate(const Expression& expression) { return chat::evaluate(expression, scopes_); }

  Flow run_if(const Statement& statement) {
    for (size_t i = 0; i < statement.expressions.size(); ++i) {
      if (chat::is_true(evaluate(statement.expressions[i]))) return run(statement.bodies[i]);
    }
    const bool otherwise = statement.bodies.size() > statement.expressions.size();
    return otherwise ? run(statement.bodies.back()) : Flow::kOn;
  }

  void set(const Statement& statement) {
    Value value = evaluate(statement.expressions[0]);
    if (deeper_than(kMaxJsonDepth, value)) {  // a loop could nest it once more each time
      throw Error(fmt::format("{} is nested more than {} levels deep", statement.names.back(),
                              kMaxJsonDepth));
    }
    if (statement.names.size() == 1) return scopes_.set(statement.names[0], std::move(value));
    Value* const space = scopes_.find(statement.names[0]);
    if (space == nullptr || !space->is_object()) {
      throw Error(fmt::format("{} is not a namespace", statement.names[0]));
    }
    (*space)[statement.names[1]] = std::move(value);
  }

  void bind(const Statement& loop, const Value& item) {
    if (loop.names.size() == 1) return scopes_.set(loop.names[0], item);
    if (!item.is_array() || item.size() != loop.names.size()) {
      throw Error(
          fmt::format("a loop over {} names gets {}", loop.names.size(), chat::kind_of(item)));
    }
    for (size_t i = 0; i < loop.names.size(); ++i) scopes_.set(loop.names[i], item[i]);
  }

  // What the loop goes over, filtered by its condition.
  std::vector<Value> items_of(const Statement& loop) {
    const Value over = chat::filtered("list", evaluate(loop.expressions[0]), {});
    std::vector<Value> items;
    for (const Value& item : over) {
      scopes_.open();
      bind(loop, item);
      const bool takes =
          loop.expressions.size() < 2 || chat::is_true(evaluate(loop.expressions[1]));
      scopes_.close();
      if (takes) items.push_back(item);
    }
    return items;
  }

  Flow run_for(const Statement& loop) {
    const std::vector<Value> items = items_of(loop);
    if (items.empty() && loop.bodies.size() > 1) return run(loop.bodies[1]);
    for (size_t i = 0; i < items.size(); ++i) {
      scopes_.open();
      Value state = {{"index0", i},
                     {"index", i + 1},
                     {"revindex0", items.size() - 1 - i},
                     {"revindex", items.size() - i},
                     {"first", i == 0},
                     {"last", i + 1 == items.size()},
                     {"length", items.size()}};
      if (i > 0) state["previtem"] = items[i - 1];
      if (i + 1 < items.size()) state["nextitem"] = items[i + 1];
      scopes_.set("loop", std::move(state));
      bind(loop, items[i]);
      const Flow flow = run(loop.bodies[0]);
      scopes_.close();
      if (flow == Flow::kBreak) break;
    }
    return Flow::kOn;
  }

  chat::Scopes scopes_;
  Rendered out_;
};

}  // namespace

struct Template::Impl {
  Body body;
};

Template::Template(const std::string& source)
    : impl_(std::make_unique<Impl>(Impl{chat::parse_template(chat::lex_template(source))})) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;

Rendered Template::render(const nlohmann::ordered_json& variables) const {
  Renderer renderer(variables);
  renderer.run(impl_->body);
  return renderer.take();
}

bool Template::marks_generation() const { return has_generation(impl_->body); }

}  // namespace thinwire::data

#include "thinwire/eval/function_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/eval/text_template.h"

namespace thinwire::eval {
namespace {

constexpr std::string_view kEnd = "<END_OF_PLAN>";
constexpr std::string_view kJoin = "join";
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kNameCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
constexpr size_t kMostDigits = 9;  // of a number

// `1. tool(` at the beginning of a line.
struct CallBeginning {
  int number = 0;
  std::string tool;
  size_t arguments = 0;  // where they begin
};

size_t skip(std::string_view line, size_t at, std::string_view characters) {
  return std::min(line.find_first_not_of(characters, at), line.size());
}

std::optional<CallBeginning> call_beginning(std::string_view line) {
  const size_t digits = skip(line, 0, kBlanks);
  const size_t stop = skip(line, digits, kDigits);
  if (stop == digits || stop == line.size() || line[stop] != '.') return std::nullopt;
  const size_t name = skip(line, stop + 1, kBlanks);
  const size_t bracket = skip(line, name, kNameCharacters);
  if (bracket == name || bracket == line.size() || line[bracket] != '(') return std::nullopt;
  if (kDigits.find(line[name]) != kDigits.npos) return std::nullopt;
  if (stop - digits > kMostDigits) {
    throw Error(
        fmt::format("call {}: the number is too large", line.substr(digits, stop - digits)));
  }
  CallBeginning found{0, std::string(line.substr(name, bracket - name)), bracket + 1};
  std::from_chars(line.data() + digits, line.data() + stop, found.number);
  return found;
}

// Reads a plan's lines one after another.
class PlanReader {
 public:
  // Whether the plan goes on after this line.
  bool read(std::string_view line) {
    if (strip(line).starts_with(kEnd)) return false;
    const auto begins = call_beginning(line);
    if (!begins) return true;
    check_number(begins->number);
    try {
      return add(*begins, line);
    } catch (const Error& error) {
      throw Error(fmt::format("call {}, {}: {}", begins->number, begins->tool, error.what()));
    }
  }

  FunctionPlan finish() {
    if (plan_.calls.empty()) throw Error("the plan has no calls");
    return std::move(plan_);
  }

 private:
  void check_number(int number) const {
    if (number < 1) throw Error("call 0: the first call is number 1");
    if (places_.contains(number)) throw Error(fmt::format("call {} appears twice", number));
    if (!plan_.calls.empty() && number < plan_.calls.back().number) {
      throw Error(fmt::format("call {} comes after call {}", number, plan_.calls.back().number));
    }
    if (plan_.calls.size() == kMostCalls) {
      throw Error(fmt::format("the plan has more than {} calls", kMostCalls));
    }
  }

  bool add(const CallBeginning& begins, std::string_view line) {
    CallArguments arguments = read_arguments(
        line, begins.arguments, [this](int number) { return places_.contains(number); });
    const std::string after = strip(line.substr(arguments.end));
    if (!after.empty() && !after.starts_with('#') && !after.starts_with(kEnd)) {
      throw Error(fmt::format("expected nothing after the call, found '{}'", after.substr(0, 20)));
    }
    FunctionCall call{begins.number, begins.tool, std::move(arguments.text), {}};
    for (const int number : arguments.references) call.references.push_back(places_.at(number));
    places_[begins.number] = plan_.calls.size();
    plan_.calls.push_back(std::move(call));
    return begins.tool != kJoin && !after.starts_with(kEnd);
  }

  FunctionPlan plan_;
  std::map<int, size_t> places_;  // of numbers
};

}  // namespace

FunctionPlan parse_plan(std::string_view text) {
  if (text.size() > kLongestPlan) {
    throw Error(fmt::format("the plan is longer than {} bytes", kLongestPlan));
  }
  PlanReader reader;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (!reader.read(text.substr(0, end))) break;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.finish();
}

}  // namespace thinwire::eval

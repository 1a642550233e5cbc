#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/chat/evaluate.h"

namespace thinwire::data::chat {
namespace {

[[noreturn]] void refuse(std::string_view what, const std::string& name, std::string_view known) {
  throw Error(fmt::format("the {} {} is not supported; {} are", what, name, known));
}

const std::string& text_of(const Value& value, std::string_view of) {
  if (!value.is_string()) throw Error(fmt::format("{} needs text, got {}", of, kind_of(value)));
  return value.get_ref<const std::string&>();
}

// What Python's str.strip() removes.
bool is_space(const std::string& character) {
  constexpr std::array<std::string_view, 25> kWide = {"\x1c",
                                                      "\x1d",
                                                      "\x1e",
                                                      "\x1f",
                                                      "\xC2\x85",
                                                      "\xC2\xA0",
                                                      "\xE1\x9A\x80",
                                                      "\xE2\x80\x80",
                                                      "\xE2\x80\x81",
                                                      "\xE2\x80\x82",
                                                      "\xE2\x80\x83",
                                                      "\xE2\x80\x84",
                                                      "\xE2\x80\x85",
                                                      "\xE2\x80\x86",
                                                      "\xE2\x80\x87",
                                                      "\xE2\x80\x88",
                                                      "\xE2\x80\x89",
                                                      "\xE2\x80\x8A",
                                                      "\xE2\x80\xA8",
                                                      "\xE2\x80\xA9",
                                                      "\xE2\x80\xAF",
                                                      "\xE2\x81\x9F",
                                                      "\xE3\x80\x80",
                                                      " ",
                                                      "\t"};
  return std::ranges::find(kWide, character) != kWide.end() ||
         std::string_view("\n\r\v\f").find(character) != std::string_view::npos;
}

std::string stripped(const std::string& text, bool left, bool right, const Value& set) {
  const std::vector<std::string> all = characters(text);
  const std::vector<std::string> chosen =
      set.is_string() ? characters(text_of(set, "strip")) : std::vector<std::string>();
  const auto goes = [&](const std::string& character) {
    return set.is_string() ? std::ranges::find(chosen, character) != chosen.end()
                           : is_space(character);
  };
  size_t begin = 0;
  size_t end = all.size();
  while (left && begin < end && goes(all[begin])) ++begin;
  while (right && end > begin && goes(all[end - 1])) --end;
  std::string result;
  for (size_t i = begin; i < end; ++i) result += all[i];
  return result;
}

// The text with ASCII letters changed: lower, upper, title or capitalize.
std::string recased(const std::string& text, std::string_view how) {
  std::string result;
  bool begins = true;  // a word, or the text
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) throw Error(fmt::format("{} is supported for ASCII text only", how));
    const bool upper = how == "upper" || (how != "lower" && begins);
    result += static_cast<char>(upper ? std::toupper(byte) : std::tolower(byte));
    begins = how == "title" && std::isalpha(byte) == 0;
  }
  return result;
}

Value split(const std::string& text, const Value& at) {
  Value parts = Value::array();
  if (at.is_discarded() || at.is_null()) {
    std::string word;
    for (const std::string& character : characters(text)) {
      if (!is_space(character)) {
        word += character;
      } else if (!word.empty()) {
        parts.push_back(std::exchange(word, {}));
      }
    }
    if (!word.empty()) parts.push_back(word);
    return parts;
  }
  const std::string& separator = text_of(at, "split");
  if (separator.empty()) throw Error("split needs a separator that is not empty");
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string::npos;
       end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string replaced(std::string text, const Arguments& arguments) {
  const std::string from = text_of(arguments.get(0, "old"), "replace");
  const std::string to = text_of(arguments.get(1, "new"), "replace");
  if (from.empty()) throw Error("replace needs a text to replace that is not empty");
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

Value joined(const Value& list, const Value& with) {
  std::string text;
  bool first = true;
  for (const Value& part : list) {
    if (!first && with.is_string()) text += text_of(with, "join");
    first = false;
    text += printed(part);
  }
  return text;
}

// As json.dumps(value, ensure_ascii=False) writes it.
std::string one_line(const Value& value) {
  if (!value.is_structured()) return print_json(value);
  std::string text(1, value.is_array() ? '[' : '{');
  bool first = true;
  for (const auto& [key, part] : value.items()) {
    if (!first) text += ", ";
    first = false;
    if (value.is_object()) text += print_json(Value(key)) + ": ";
    text += one_line(part);
  }
  return text + (value.is_array() ? ']' : '}');
}

Value length(const Value& value) {
  if (value.is_string()) return characters(value.get<std::string>()).size();
  if (value.is_structured()) return value.size();
  throw Error(fmt::format("length needs text, a list or a dictionary, got {}", kind_of(value)));
}

Value items(const Value& value) {
  if (!value.is_object())
    throw Error(fmt::format("items needs a dictionary, got {}", kind_of(value)));
  Value pairs = Value::array();
  for (const auto& [key, part] : value.items()) pairs.push_back(Value::array({key, part}));
  return pairs;
}

// The elements whose attribute (an item, by its name) passes a test, or without one is true.
Value selected(const Value& list, const Arguments& arguments, bool passing) {
  const std::string attribute = text_of(arguments.get(0, ""), "selectattr");
  if (!list.is_array()) throw Error(fmt::format("selectattr needs a list, got {}", kind_of(list)));
  const Value test = arguments.get(1, "");
  const Arguments rest = {{arguments.get(2, "")}};
  Value chosen = Value::array();
  for (const Value& element : list) {
    const Value value =
        element.is_object() && element.contains(attribute) ? element[attribute] : undefined();
    const bool passed =
        test.is_discarded() ? is_true(value) : passes(text_of(test, "selectattr"), value, rest);
    if (passed == passing) chosen.push_back(element);
  }
  return chosen;
}

Value end_of(const Value& value, bool last) {
  if (!value.is_array())
    throw Error(fmt::format("first and last need a list, got {}", kind_of(value)));
  if (value.empty()) return undefined();
  return last ? value.back() : value.front();
}

Value as_list(const Value& value) {
  if (value.is_array()) return value;
  Value list = Value::array();
  if (value.is_string()) {
    for (std::string& one : characters(value.get<std::string>())) list.push_back(std::move(one));
    return list;
  }
  if (!value.is_object())
    throw Error(fmt::format("list needs text or a list, got {}", kind_of(value)));
  for (const auto& [key, part] : value.items()) list.push_back(key);
  return list;
}

}  // namespace

Value Arguments::get(size_t index, const std::string& name) const {
  if (index < values.size()) return values[index];
  for (const auto& [key, value] : named) {
    if (key == name) return value;
  }
  return undefined();
}

Value undefined() { return Value(Value::value_t::discarded); }

bool is_true(const Value& value) {
  if (value.is_discarded() || value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

std::string kind_of(const Value& value) {
  if (value.is_discarded()) return "something undefined";
  if (value.is_null()) return "none";
  if (value.is_string()) return "text";
  if (value.is_boolean()) return "true or false";
  if (value.is_number()) return "a number";
  return value.is_array() ? "a list" : "a dictionary";
}

std::string printed(const Value& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_discarded()) return {};
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number()) return print_json(value);
  throw Error(fmt::format("writing {} is not supported but by tojson", kind_of(value)));
}

std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> all;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
    if (continues && !all.empty()) {
      all.back() += c;
    } else {
      all.emplace_back(1, c);
    }
  }
  return all;
}

Value filtered(const std::string& filter, const Value& input, const Arguments& arguments) {
  if (filter == "trim")
    return stripped(text_of(input, filter), true, true, arguments.get(0, "chars"));
  if (filter == "length" || filter == "count") return length(input);
  if (filter == "lower" || filter == "upper" || filter == "title" || filter == "capitalize") {
    return recased(text_of(input, filter), filter);
  }
  if (filter == "replace") return replaced(text_of(input, filter), arguments);
  if (filter == "join") return joined(input, arguments.get(0, "d"));
  if (filter == "first" || filter == "last") return end_of(input, filter == "last");
  if (filter == "items") return items(input);
  if (filter == "list") return as_list(input);
  if (filter == "selectattr" || filter == "rejectattr") {
    return selected(input, arguments, filter == "selectattr");
  }
  if (filter == "string") return printed(input);
  if (filter == "safe") return input;
  if (filter == "default" || filter == "d") {
    const bool empty_too = is_true(arguments.get(1, "boolean"));
    const bool takes = input.is_discarded() || (empty_too && !is_true(input));
    return takes ? arguments.get(0, "default_value") : input;
  }
  if (filter == "tojson") {
    const Value indent = arguments.get(0, "indent");
    return indent.is_number_integer() ? print_json(input, {.indent = indent.get<int>()})
                                      : one_line(input);
  }
  refuse("filter", filter,
         "trim, length, count, lower, upper, title, capitalize, replace, join, first, last, items, "
         "list, selectattr, rejectattr, string, safe, default, d and tojson");
}

bool passes(const std::string& test, const Value& input, const Arguments& arguments) {
  if (test == "defined") return !input.is_discarded();
  if (test == "undefined") return input.is_discarded();
  if (test == "none") return input.is_null();
  if (test == "string") return input.is_string();
  if (test == "mapping") return input.is_object();
  if (test == "iterable" || test == "sequence") return input.is_string() || input.is_structured();
  if (test == "boolean") return input.is_boolean();
  if (test == "number") return input.is_number() || input.is_boolean();
  if (test == "integer") return input.is_number_integer();
  if (test == "true") return input == true;
  if (test == "false") return input == false;
  if (test == "odd" || test == "even") {
    if (!input.is_number_integer()) throw Error(test + " needs a whole number");
    return (input.get<int64_t>() % 2 != 0) == (test == "odd");
  }
  if (test == "equalto" || test == "eq") return input == arguments.get(0, "other");
  refuse("test", test,
         "defined, undefined, none, string, mapping, iterable, sequence, boolean, number, integer, "
         "true, false, odd, even, equalto and eq");
}

Value call_method(const Value& object, const std::string& method, const Arguments& arguments) {
  const Value first = arguments.get(0, "");
  if (object.is_object()) {
    if (method == "items") return items(object);
    if (method == "keys") return as_list(object);
    if (method == "get" && first.is_string()) {
      const auto found = object.find(first.get<std::string>());
      if (found != object.end()) return *found;
      const Value other = arguments.get(1, "default");
      return other.is_discarded() ? Value(nullptr) : other;
    }
    refuse("method", method, "items, keys and get of a dictionary");
  }
  const std::string& text = text_of(object, method);
  if (method == "strip") return stripped(text, true, true, first);
  if (method == "lstrip") return stripped(text, true, false, first);
  if (method == "rstrip") return stripped(text, false, true, first);
  if (method == "startswith") return text.starts_with(text_of(first, method));
  if (method == "endswith") return text.ends_with(text_of(first, method));
  if (method == "split" && arguments.values.size() < 2 && arguments.named.empty()) {
    return split(text, first);
  }
  if (method == "replace" && arguments.values.size() == 2) return replaced(text, arguments);
  if (method == "lower" || method == "upper" || method == "title" || method == "capitalize") {
    return recased(text, method);
  }
  refuse("method", method,
         "strip, lstrip, rstrip, startswith, endswith, split, replace, lower, upper, title and "
         "capitalize of text");
}

Value call_function(const std::string& function, const Arguments& arguments) {
  if (function == "raise_exception") {
    throw Error(
        fmt::format("the chat template refuses it: {}", printed(arguments.get(0, "message"))));
  }
  if (function == "namespace" || function == "dict") {
    Value result = Value::object();
    for (const auto& [key, value] : arguments.named) result[key] = value;
    return result;
  }
  if (function == "range") {
    std::array<int64_t, 3> bounds = {0, 0, 1};
    const size_t count = arguments.values.size();
    for (size_t i = 0; i < count && i < bounds.size(); ++i) {
      if (!arguments.values[i].is_number_integer()) throw Error("range needs whole numbers");
      bounds[i] = arguments.values[i].get<int64_t>();
    }
    if (count == 1) bounds = {0, bounds[0], 1};
    if (count == 0 || bounds[2] == 0) throw Error("range needs an end, and a step that is not 0");
    Value list = Value::array();
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1]; i += bounds[2]) {
      if (list.size() == 100'000) throw Error("range gives more than 100000 numbers");
      list.push_back(i);
    }
    return list;
  }
  refuse("function", function, "namespace, dict, range and raise_exception");
}

}  // namespace thinwire::data::chat

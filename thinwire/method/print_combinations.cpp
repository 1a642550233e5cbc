// The table of combinations as text and as a page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/config/values.h"
#include "thinwire/method/combinations.h"

namespace thinwire::method {
namespace {

using Features = std::vector<const Feature*>;

constexpr size_t kColumns = 100;
constexpr std::string_view kServed = "thinwire serve";  // the feature
constexpr char kNoBreak = '\x01';                       // a space at which lines do not end

struct Pair {
  const Feature* one;
  const Feature* other;
  Combination result;
};

// Features that go, or do not go, with all of some others, for the same reason.
struct Group {
  Features ones;
  Features others;
  std::string why;  // of the first two
};

std::string settings_of(const Overrides& overrides) {
  std::vector<std::string> settings;
  for (const std::string& one : overrides) {
    const size_t equals = one.find('=');
    settings.push_back(one.substr(0, equals) + " = " + one.substr(equals + 1));
  }
  return fmt::format("{}", fmt::join(settings, ", "));
}

// "optim.method = apollo, fira; thinwire serve".
std::string names_of(const Features& features) {
  std::string names;
  std::string_view field;
  for (const Feature* feature : features) {
    const bool goes_on = !feature->field.empty() && feature->field == field;
    if (!names.empty()) names += goes_on ? ", " : "; ";
    std::string name = goes_on ? feature->name.substr(feature->name.find("= ") + 2) : feature->name;
    std::ranges::replace(name, ' ', kNoBreak);
    names += name;
    field = feature->field;
  }
  return names;
}

// Lines of at most kColumns, the first after `first` spaces, the others after `indent`.
std::string wrapped(const std::string& text, size_t first, size_t indent) {
  std::string out(first, ' ');
  size_t column = first;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (begin > 0 && column + 1 + (end - begin) > kColumns) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (begin > 0) {
      out += ' ';
      ++column;
    }
    out += text.substr(begin, end - begin);
    column += end - begin;
    begin = end + 1;
  }
  std::ranges::replace(out, kNoBreak, ' ');
  return out + "\n";
}

// A sentence without the texts quoted in it, so that those of one check are alike.
std::string without_quotes(const std::string& sentence) {
  std::string kept;
  bool quoted = false;
  for (const char c : sentence) {
    if (c == '"') quoted = !quoted;
    if (!quoted) kept += c;
  }
  return kept;
}

using Reason = std::string (*)(const Combination& result);

// Adds the pairs of one reason, those with the same others together.
void append_groups(const std::vector<const Pair*>& pairs, Reason reason_of,
                   std::vector<Group>& groups) {
  std::vector<Group> rows;
  for (const Pair* pair : pairs) {
    const auto row = std::ranges::find_if(
        rows, [&](const Group& known) { return known.ones.front() == pair->one; });
    if (row == rows.end()) {
      rows.push_back({{pair->one}, {pair->other}, reason_of(pair->result)});
    } else {
      row->others.push_back(pair->other);
    }
  }
  const auto first = static_cast<ptrdiff_t>(groups.size());
  for (Group& row : rows) {
    const auto same = std::find_if(groups.begin() + first, groups.end(),
                                   [&](const Group& one) { return one.others == row.others; });
    if (same == groups.end()) {
      groups.push_back(std::move(row));
    } else {
      same->ones.push_back(row.ones.front());
    }
  }
}

// By reason, in the order in which these are first given.
std::vector<Group> groups_of(const std::vector<Pair>& all, Reason reason_of) {
  std::vector<std::string> reasons;
  std::map<std::string, std::vector<const Pair*>> by_reason;
  for (const Pair& pair : all) {
    const std::string reason = without_quotes(reason_of(pair.result));
    if (!by_reason.contains(reason)) reasons.push_back(reason);
    by_reason[reason].push_back(&pair);
  }
  std::vector<Group> groups;
  for (const std::string& reason : reasons) append_groups(by_reason[reason], reason_of, groups);
  return groups;
}

std::string refusal_of(const Combination& result) { return result.refusal; }
std::string besides_of(const Combination& result) { return settings_of(result.besides); }

// Whether the sentence is about the feature's field.
bool is_about(const std::string& sentence, const Feature& feature) {
  const size_t dot = feature.field.find('.');
  if (dot == std::string::npos) return false;
  return sentence.starts_with(fmt::format("[{}] {} ", feature.field.substr(0, dot),
                                          feature.field.substr(dot + 1))) ||
         sentence.starts_with(feature.field + " ");
}

// Every two features that a run may have.
class Table {
 public:
  Table() {
    const std::vector<Feature>& features = all_features();
    for (size_t i = 0; i < features.size(); ++i) {
      for (size_t j = i + 1; j < features.size(); ++j) add(features[i], features[j]);
    }
  }

  // The pairs that are refused, but not because of what one of the two needs.
  std::vector<Pair> refused() const {
    std::vector<Pair> own;
    for (const Pair& pair : pairs_) {
      const bool implied = follows(*pair.one, *pair.other) || follows(*pair.other, *pair.one);
      if (!pair.result.works() && !implied) own.push_back(pair);
    }
    return own;
  }

  std::vector<Pair> conditional() const {
    const auto is_implied = [](const Feature& feature) {
      return feature.command && feature.name != kServed;
    };
    std::vector<Pair> some;
    std::ranges::copy_if(pairs_, std::back_inserter(some), [&](const Pair& pair) {
      return pair.result.works() && !pair.result.besides.empty() && !is_implied(*pair.one) &&
             !is_implied(*pair.other);
    });
    return some;
  }

 private:
  void add(const Feature& one, const Feature& other) {
    auto result = combine(one, other);
    if (!result) return;
    const bool turned = is_about(result->refusal, other) && !is_about(result->refusal, one);
    const Feature* first = turned ? &other : &one;
    const Feature* second = turned ? &one : &other;
    if (!result->works()) {
      refused_.insert({first->name, second->name});
      refused_.insert({second->name, first->name});
    }
    pairs_.push_back({first, second, *std::move(result)});
  }

  // Whether `one` is refused because of what `other` needs: another value of a field that it sets,
  // or something that it is refused with as well.
  bool follows(const Feature& one, const Feature& other) const {
    const bool hosted = other.command && other.name != kServed;
    if (hosted && refused_.contains({one.name, std::string(kServed)})) return true;
    return std::ranges::all_of(other.needs, [&](const Overrides& way) {
      return std::ranges::any_of(way, [&](const std::string& need) {
        const std::string key = need.substr(0, need.find('=') + 1);
        const bool another = std::ranges::any_of(
            one.sets, [&](const std::string& set) { return set.starts_with(key) && set != need; });
        return another || refused_.contains({one.name, settings_of({need})});
      });
    });
  }

  std::vector<Pair> pairs_;
  std::set<std::pair<std::string, std::string>> refused_;  // names, in both orders
};

std::string needs_of(const Feature& feature) {
  std::vector<std::string> ways;
  for (const Overrides& way : feature.needs) ways.push_back(settings_of(way));
  std::string needs = fmt::format("{}", fmt::join(ways, "; or "));
  if (feature.command && !feature.sets.empty()) {
    needs += fmt::format("{}{}", needs.empty() ? "" : ", ", kServed);
  }
  return needs;
}

// Features of one field that need the same, one after another.
std::vector<std::pair<Features, std::string>> rows_of_features() {
  std::vector<std::pair<Features, std::string>> rows;
  for (const Feature& feature : all_features()) {
    const std::string needs = needs_of(feature);
    const bool goes_on = !rows.empty() && rows.back().second == needs &&
                         rows.back().first.back()->field == feature.field;
    if (!goes_on) rows.push_back({{}, needs});
    rows.back().first.push_back(&feature);
  }
  return rows;
}

std::string print_all() {
  std::string out = "Features, and what each needs:\n\n";
  for (const auto& [features, needs] : rows_of_features()) {
    out += wrapped(names_of(features), 0, 4);
    if (!needs.empty()) out += wrapped("needs " + needs, 4, 6);
  }
  const Table table;
  out += "\nWhat goes together only with something else besides:\n\n";
  for (const Group& group : groups_of(table.conditional(), besides_of)) {
    out += wrapped(names_of(group.ones), 0, 4);
    out += wrapped("with " + names_of(group.others), 2, 6);
    out += wrapped("needs " + group.why, 4, 6);
  }
  out +=
      "\nWhat does not go together. All else does, unless a feature needs what another is not "
      "with:\n";
  for (const Group& group : groups_of(table.refused(), refusal_of)) {
    out += "\n" + wrapped(names_of(group.ones), 0, 4);
    out += wrapped("not with " + names_of(group.others), 2, 6);
    out += wrapped(group.why, 4, 4);
  }
  return out;
}

std::string print_one(const Feature& feature) {
  std::string out = feature.name + "\n";
  if (const std::string needs = needs_of(feature); !needs.empty()) {
    out += wrapped("needs " + needs, 2, 6);
  }
  std::vector<Pair> works;
  std::vector<Pair> refused;
  for (const Feature& other : all_features()) {
    auto result = combine(feature, other);
    if (!result) continue;
    auto& where = result->works() ? works : refused;
    where.push_back({&feature, &other, *std::move(result)});
  }
  for (const Group& group : groups_of(works, besides_of)) {
    const std::string besides = group.why.empty() ? "" : ", and then needs " + group.why;
    out += wrapped("goes with " + names_of(group.others) + besides, 2, 6);
  }
  for (const Group& group : groups_of(refused, refusal_of)) {
    out += wrapped("not with " + names_of(group.others), 2, 6);
    out += wrapped(group.why, 4, 4);
  }
  return out;
}

std::string without_spaces(std::string_view text) {
  std::string out(text);
  std::erase(out, ' ');
  return out;
}

bool is_of(const Feature& feature, std::string_view which) {
  return without_spaces(feature.name) == without_spaces(which) || feature.field == which ||
         feature.field.starts_with(fmt::format("{}.", which));
}

// Text of a cell in Markdown.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '<' || c == '|') out += '\\';
    out += c == kNoBreak ? ' ' : c;
  }
  return out;
}

constexpr const char* kPageIntroduction =
    R"(# What goes with what

A feature is a value other than the default of a recipe's field, or a command. Any two of them go together, unless the
last table on this page says why not. `thinwire recipe --combinations adapter.kind=lora` (or a field, or a table) says
what one feature goes with.

The page is made by `thinwire recipe --combinations --markdown` from the checks that the parser and the commands make. A
test trains each pair that goes together for a few steps, but for those that need a GPU or ranks of an MPI job, and
another test fails if this page is out of date.

The tables `local_sgd` and `streaming` have the fields of `diloco`, too, and what holds for its fields holds for theirs.
MODEL, TASK and DATA stand for files and folders; numbers are examples.

## Features, and what each needs

| feature | needs |
|---|---|
)";

constexpr const char* kPageConditions =
    R"(
## What goes together only with something else besides

| this | with | needs |
|---|---|---|
)";

constexpr const char* kPageRefusals =
    R"(
## What does not go together

What a feature needs is not repeated: `distro.update` needs `sync.method = distro`, and so does not go with what that
does not go with. What does not go with `thinwire serve` does not go with the commands and fields that belong to it.

| this | not with | why |
|---|---|---|
)";

void append_rows(const std::vector<Group>& groups, std::string& page) {
  for (const Group& group : groups) {
    page += fmt::format("| {} | {} | {} |\n", cell(names_of(group.ones)),
                        cell(names_of(group.others)), cell(group.why));
  }
}

}  // namespace

std::string print_combinations(std::string_view which) {
  if (which.empty()) return print_all();
  std::string out;
  config::StringList known;
  for (const Feature& feature : all_features()) {
    known.push_back(feature.field);
    if (is_of(feature, which)) out += (out.empty() ? "" : "\n") + print_one(feature);
  }
  if (!out.empty()) return out;
  const std::string near = config::nearest_name(which, known);
  throw UsageError(
      fmt::format("there is no feature '{}'{}; `thinwire recipe --combinations` lists all", which,
                  near.empty() ? "" : fmt::format(", did you mean {}?", near)));
}

std::string combinations_page() {
  std::string page = kPageIntroduction;
  for (const auto& [features, needs] : rows_of_features()) {
    page += fmt::format("| {} | {} |\n", cell(names_of(features)), cell(needs));
  }
  const Table table;
  page += kPageConditions;
  append_rows(groups_of(table.conditional(), besides_of), page);
  page += kPageRefusals;
  append_rows(groups_of(table.refused(), refusal_of), page);
  return page;
}

}  // namespace thinwire::method

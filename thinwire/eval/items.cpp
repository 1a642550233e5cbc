#include "thinwire/eval/items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/lines.h"
#include "thinwire/eval/task.h"
#include "thinwire/eval/text_template.h"

namespace thinwire::eval {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestLine = size_t{16} << 20;

std::vector<TextTemplate> templates(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

// The file as it is named, or compressed.
std::optional<fs::path> find_file(const fs::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz", ".bz2", ".zst"}) {
    fs::path path = folder / (name + ending);
    if (fs::is_regular_file(path)) return path;
  }
  return std::nullopt;
}

fs::path require_file(const std::string& task, const fs::path& folder,
                      const std::vector<std::string>& names) {
  if (!fs::is_directory(folder)) {
    throw Error(fmt::format("task {}: there is no folder {}; --data names the one that has {}",
                            task, folder.string(), fmt::join(names, " or ")));
  }
  for (const std::string& name : names) {
    if (auto path = find_file(folder, name)) return *path;
  }
  throw Error(fmt::format(
      "task {}: {} has no {} (also .gz, .bz2 or .zst); --data names the folder that has it", task,
      folder.string(), fmt::join(names, " and no ")));
}

const TaskSource& find_source(const Task& task, const fs::path& folder) {
  for (const TaskSource& source : task.sources) {
    if (find_file(folder, source.file)) return source;
  }
  std::vector<std::string> names;
  for (const TaskSource& source : task.sources) names.push_back(source.file);
  require_file(task.name, folder, names);
  return task.sources.front();  // not reached
}

// Lines of a file, one after another; says where it is.
class Lines {
 public:
  explicit Lines(const fs::path& path) : path_(path), reader_(path, kLongestLine, false) {}

  bool next(std::string& text) {
    if (!reader_.next(line_)) return false;
    if (!line_.ends) throw Error(fmt::format("{}: longer than {} bytes", place(), kLongestLine));
    text = std::move(line_.text);
    return true;
  }
  std::string place() const { return fmt::format("{}: line {}", path_.string(), line_.number); }

 private:
  fs::path path_;
  data::LineReader reader_;
  data::Line line_;
};

// The records of a source, each with its answer.
class Records {
 public:
  Records(const std::string& task, const TaskSource& source, const fs::path& folder)
      : source_(source), lines_(require_file(task, folder, {source.file})) {
    if (!source.answers_file.empty()) {
      answers_.emplace(require_file(task, folder, {source.answers_file}));
    }
  }

  // False at the end of the file.
  bool next(Json& record, std::string& answer) {
    if (!(source_.lines.empty() ? next_object(record) : next_lines(record))) {
      refuse_further_answers();
      return false;
    }
    if (answers_ && !answers_->next(answer)) {
      throw Error(fmt::format("{}: there is no answer to {}", answers_->place(), lines_.place()));
    }
    return true;
  }
  std::string place() const { return lines_.place(); }

 private:
  // More answers than records are those of other records.
  void refuse_further_answers() {
    std::string answer;
    while (answers_ && answers_->next(answer)) {
      if (strip(answer).empty()) continue;
      throw Error(fmt::format("{}: an answer to no record of {}", answers_->place(), place()));
    }
  }

  bool next_object(Json& record) {
    std::string text;
    do {
      if (!lines_.next(text)) return false;
    } while (strip(text).empty());
    record = try_parse_json<Json>(text);
    if (!record.is_object()) throw Error(fmt::format("{}: {}", place(), json_fault(text)));
    return true;
  }

  bool next_lines(Json& record) {
    record = Json::object();
    for (const std::string& name : source_.lines) {
      std::string text;
      if (!lines_.next(text)) {
        if (record.empty()) return false;
        throw Error(fmt::format("{}: the file ends before the record's {}", place(), name));
      }
      record[name] = std::move(text);
    }
    return true;
  }

  const TaskSource& source_;
  Lines lines_;
  std::optional<Lines> answers_;
};

// Makes items of one source's records.
class ItemMaker {
 public:
  explicit ItemMaker(const TaskSource& source)
      : source_(source),
        contexts_(templates(source.contexts)),
        continuations_(templates(source.continuations)),
        labels_(templates(source.labels)),
        answer_(source.answer),
        plan_(source.plan) {}

  Item make(const Json& record, const std::string& listed_answer) const {
    const std::vector<std::string> contexts = fill(contexts_, record);
    const std::vector<std::string> continuations = fill(continuations_, record);
    const size_t count = std::max(contexts.size(), continuations.size());
    for (const auto* texts : {&contexts, &continuations}) {
      if (texts->size() == count || texts->size() == 1) continue;
      throw Error(fmt::format("{} contexts and {} continuations; expected as many, or one",
                              contexts.size(), continuations.size()));
    }
    Item item;
    for (size_t i = 0; i < count; ++i) {
      const std::string context = clean(contexts[contexts.size() == 1 ? 0 : i]);
      const std::string text = clean(continuations[continuations.size() == 1 ? 0 : i]);
      if (text.empty()) throw Error(fmt::format("choice {} is empty", i));
      item.choices.push_back({context, " " + text, characters(text)});
    }
    if (source_.kind() == TaskKind::kChoices) {
      item.answer = find_answer(record, listed_answer, count);
    }
    return item;
  }

  PlanItem make_plan(const Json& record) const {
    PlanItem item;
    item.prompt = clean(only("contexts", contexts_.front().fill(record)));
    try {
      item.reference = parse_plan(only("plan", plan_.fill(record)));
    } catch (const Error& error) {
      throw Error(fmt::format("plan: {}", error.what()));
    }
    return item;
  }

  ClassItem make_class(const Json& record) const {
    const std::vector<std::string> texts = fill(contexts_, record);
    if (texts.size() != contexts_.size()) {
      throw Error(fmt::format("{} texts for {} contexts", texts.size(), contexts_.size()));
    }
    ClassItem item;
    item.text = texts.front();
    if (texts.size() == 2) item.second = texts.back();
    item.truth = labels_.empty() ? find_number(record)
                                 : static_cast<double>(find_answer(record, {}, labels_.size()));
    return item;
  }

 private:
  std::string clean(const std::string& text) const {
    return source_.wikihow ? clean_wikihow(text) : text;
  }

  static std::string only(const char* field, const std::vector<std::string>& texts) {
    if (texts.size() == 1) return texts.front();
    throw Error(fmt::format("{} gives {} texts; expected one", field, texts.size()));
  }

  static std::vector<std::string> fill(const std::vector<TextTemplate>& templates,
                                       const Json& record) {
    std::vector<std::string> all;
    for (const TextTemplate& one : templates) {
      for (std::string& text : one.fill(record)) all.push_back(std::move(text));
    }
    return all;
  }

  double find_number(const Json& record) const {
    const std::string text = strip(only("answer", answer_.fill(record)));
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number)) {
      return number;
    }
    throw Error(fmt::format("the answer is '{}', which is not a number", text));
  }

  int64_t find_answer(const Json& record, const std::string& listed, size_t choices) const {
    const std::string answer =
        source_.answer.empty() ? strip(listed) : only("answer", answer_.fill(record));
    const std::vector<std::string> labels = fill(labels_, record);
    if (labels.size() != choices) {
      throw Error(fmt::format("{} labels for {} choices", labels.size(), choices));
    }
    const auto found = std::ranges::find(labels, answer);
    if (found == labels.end()) {
      throw Error(fmt::format("the answer is '{}', which is not one of {}", answer,
                              fmt::join(labels, ", ")));
    }
    return found - labels.begin();
  }

  const TaskSource& source_;
  std::vector<TextTemplate> contexts_, continuations_, labels_;
  TextTemplate answer_, plan_;
};

}  // namespace

std::vector<std::string> data_files(const Task& task, const fs::path& folder) {
  const TaskSource& source = find_source(task, folder);
  std::vector<std::string> files;
  for (const std::string& name : {source.file, source.answers_file}) {
    if (name.empty()) continue;
    files.push_back(require_file(task.name, folder, {name}).lexically_relative(folder).string());
  }
  return files;
}

TaskItems read_items(const Task& task, const fs::path& folder, int64_t limit) {
  const TaskSource& source = find_source(task, folder);
  const ItemMaker maker(source);
  Records records(task.name, source, folder);
  TaskItems read{task.name, source.metrics, {}};
  read.generation = {source.stop, source.max_tokens};
  read.numbers = source.kind() == TaskKind::kNumber;
  Json record;
  std::string answer;
  int64_t count = 0;
  for (; (limit == 0 || count < limit) && records.next(record, answer); ++count) {
    try {
      if (source.kind() == TaskKind::kPlan) {
        read.plans.push_back(maker.make_plan(record));
        read.plans.back().number = count;
      } else if (source.kind() == TaskKind::kClass || source.kind() == TaskKind::kNumber) {
        read.texts.push_back(maker.make_class(record));
        read.texts.back().number = count;
      } else {
        read.items.push_back(maker.make(record, answer));
        read.items.back().number = count;
      }
    } catch (const Error& error) {
      throw Error(fmt::format("task {}: {}: {}", task.name, records.place(), error.what()));
    }
  }
  if (count == 0) {
    throw Error(fmt::format("task {}: {} has no records", task.name, records.place()));
  }
  return read;
}

}  // namespace thinwire::eval

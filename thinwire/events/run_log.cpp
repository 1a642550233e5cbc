#include "thinwire/events/run_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"

namespace thinwire::events {
namespace {

[[noreturn]] void throw_system_error(std::string_view action, const fs::path& path, int error) {
  throw Error(fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(error)));
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Calls visit(line number, line without its newline) for every whole line; returns whether there is
// an unfinished line at the end.
bool for_each_line(std::string_view text,
                   const std::function<void(int64_t, std::string_view)>& visit) {
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return true;
    visit(number, text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return false;
}

Json parse_line(std::string_view line, const std::string& origin) {
  Json value = try_parse_json<Json>(line);
  if (value.is_discarded()) {
    throw Error(fmt::format("{}: this line is damaged: it is {}; remove it to read the rest",
                            origin, json_fault(line, "not JSON")));
  }
  return value;
}

std::string line_origin(const fs::path& file, int64_t number) {
  return fmt::format("{}:{}", file.string(), number);
}

struct KeptLines {
  std::string text;
  bool torn = false;  // an unfinished line was left out
};

// What a log holds of the steps up to `last_step`.
KeptLines lines_up_to(const fs::path& file, int64_t last_step) {
  const MappedFile mapped(file);
  KeptLines kept;
  kept.torn = for_each_line(text_of(mapped), [&](int64_t number, std::string_view line) {
    const std::string origin = line_origin(file, number);
    const Json record = parse_line(line, origin);
    const bool has_step = record.is_object() && record.contains("step");
    if (has_step && JsonFields(record, origin).integer("step") > last_step) return;
    kept.text.append(line).push_back('\n');
  });
  return kept;
}

StepEvent step_event(const JsonFields& fields, const std::string& origin) {
  StepEvent event;
  event.time = fields.number("time");
  event.step = fields.integer("step");
  event.loss = fields.number("loss");
  event.learning_rate = fields.number("learning_rate");
  event.gradient_norm = fields.number("gradient_norm");
  event.tokens = fields.integer("tokens");
  event.tokens_per_second = fields.number("tokens_per_second");
  event.model_flops_per_second = fields.number("model_flops_per_second");
  event.bytes_sent = fields.number("bytes_sent");
  event.bytes_received = fields.number("bytes_received");
  const Json& seconds = fields.object("seconds");
  const JsonFields phases(seconds, origin);
  for (const auto& phase : seconds.items()) {
    event.seconds.emplace_back(phase.key(), phases.number(phase.key()));
  }
  if (fields.has("rewards")) {
    const JsonFields rewards(fields.object("rewards"), origin);
    event.rewards.emplace();
    for (const RewardField& field : kRewardFields) {
      (*event.rewards).*field.value = rewards.number(field.name);
    }
  }
  return event;
}

void add_event(const Json& record, const std::string& origin, RunHistory& history) {
  const JsonFields fields(record, origin);
  const std::string kind = fields.text("event");
  if (kind == "step") {
    history.steps.push_back(step_event(fields, origin));
  } else if (kind == "eval") {
    history.evals.push_back({fields.integer("step"), fields.text("name"), fields.number("loss"),
                             fields.number("time")});
  } else if (kind == "task") {
    history.evals.push_back({fields.integer("step"), fields.text("name"), fields.number("score"),
                             fields.number("time"), true});
  } else if (kind == "message") {
    history.messages.push_back({fields.integer("step"), fields.text("text")});
  }
}

}  // namespace

RunLog::RunLog(fs::path file) : path_(std::move(file)) { open(O_TRUNC); }

RunLog::RunLog(fs::path file, int64_t resume_step) : path_(std::move(file)) {
  if (fs::exists(path_)) {
    const KeptLines kept = lines_up_to(path_, resume_step);
    repaired_ = kept.torn;
    if (kept.text.size() != fs::file_size(path_)) write_file(path_, kept.text);
  }
  open(0);
}

RunLog::~RunLog() { ::close(file_); }

void RunLog::open(int flags) {
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path());
  file_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | flags, 0644);
  if (file_ < 0) throw_system_error("open", path_, errno);
}

void RunLog::write(const StepEvent& event) {
  Json seconds = Json::object();
  for (const auto& [phase, value] : event.seconds) seconds[phase] = value;
  Json record = {{"step", event.step},
                 {"loss", event.loss},
                 {"learning_rate", event.learning_rate},
                 {"gradient_norm", event.gradient_norm},
                 {"tokens", event.tokens},
                 {"tokens_per_second", event.tokens_per_second},
                 {"model_flops_per_second", event.model_flops_per_second},
                 {"bytes_sent", event.bytes_sent},
                 {"bytes_received", event.bytes_received},
                 {"seconds", std::move(seconds)}};
  if (event.rewards) {
    for (const RewardField& field : kRewardFields) {
      record["rewards"][field.name] = (*event.rewards).*field.value;
    }
  }
  write("step", record);
}

void RunLog::write(const EvalEvent& event) {
  const char* const value = event.score ? "score" : "loss";
  write(event.score ? "task" : "eval",
        {{"step", event.step}, {"name", event.name}, {value, event.loss}});
}

void RunLog::write(const MessageEvent& event) {
  write("message", {{"step", event.step}, {"text", event.text}});
}

void RunLog::write(const std::string& event, const nlohmann::ordered_json& record) {
  Json line = {{"event", event}, {"time", unix_seconds()}};
  line.update(record);
  append(print_json(line, {.replace_invalid = true}) + '\n');
}

void RunLog::append(const std::string& line) {
  const Lock lock(writing_);
  size_t done = 0;
  int error = 0;
  while (done < line.size() && error == 0) {
    const ssize_t written = ::write(file_, line.data() + done, line.size() - done);
    if (written >= 0) done += static_cast<size_t>(written);
    if (written < 0 && errno != EINTR) error = errno;
  }
  if (error == 0) return;
  const off_t end = ::lseek(file_, 0, SEEK_END);
  const bool whole_lines = done == 0 || ::ftruncate(file_, end - static_cast<off_t>(done)) == 0;
  throw_system_error(whole_lines ? "write" : "write a whole line to", path_, error);
}

void RunLog::sync() {
  if (::fsync(file_) != 0) throw_system_error("sync", path_, errno);
}

RunHistory read_run_log(const fs::path& file) {
  const MappedFile mapped(file);
  RunHistory history;
  history.torn = for_each_line(text_of(mapped), [&](int64_t number, std::string_view line) {
    const std::string origin = line_origin(file, number);
    add_event(parse_line(line, origin), origin, history);
  });
  return history;
}

}  // namespace thinwire::events

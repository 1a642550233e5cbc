#include "thinwire/events/summary.h"

#include <fmt/format.h>

#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/events/run_log.h"

namespace thinwire::events {
namespace {

// Writes and reads with the same list of fields.
template <typename Target, typename Visitor>
void visit_fields(Target& summary, Visitor&& visit) {
  visit("name", summary.name);
  visit("method", summary.method);
  visit("within", summary.within);
  visit("workers", summary.workers);
  visit("steps", summary.steps);
  visit("tokens", summary.tokens);
  visit("params", summary.params);
  visit("params_non_embedding", summary.params_non_embedding);
  visit("train_loss", summary.train_loss);
  visit("train_loss_steps", summary.train_loss_steps);
  visit("val_loss", summary.val_loss);
  visit("scores", summary.scores);
  visit("bytes_sent_per_worker_step", summary.bytes_sent_per_worker_step);
  visit("bytes_received_per_worker_step", summary.bytes_received_per_worker_step);
  visit("ratio_ring", summary.ratio_ring);
  visit("ratio_ring_sent", summary.ratio_ring_sent);
  visit("ratio_report", summary.ratio_report);
  visit("seconds", summary.seconds);
  visit("seconds_over_links", summary.seconds_over_links);
  visit("compute_utilization", summary.compute_utilization);
  visit("link_down_bit_s", summary.link_down_bit_s);
  visit("link_up_bit_s", summary.link_up_bit_s);
  visit("tokens_per_second", summary.tokens_per_second);
  visit("peak_memory_bytes", summary.peak_memory_bytes);
  visit("digest", summary.digest);
}

struct Reader {
  const JsonFields& fields;
  const std::string& origin;

  void operator()(const char* key, std::string& value) const { value = fields.text(key); }
  void operator()(const char* key, int64_t& value) const { value = fields.integer(key); }
  void operator()(const char* key, double& value) const { value = fields.number(key); }
  void operator()(const char* key, std::map<std::string, double>& value) const {
    const Json& losses = fields.object(key);
    const JsonFields sets(losses, origin);
    for (const auto& item : losses.items()) value[item.key()] = sets.number(item.key());
  }
};

}  // namespace

std::string describe_train_loss(const Summary& summary) {
  if (std::isnan(summary.train_loss))
    return "unknown, as the log here does not have the last steps";
  if (summary.train_loss_steps == 0) return "moving average";
  if (summary.train_loss_steps == 1) return "of the last step";
  return fmt::format("mean of the last {} steps", summary.train_loss_steps);
}

namespace {

Json json_of(const Summary& summary) {
  Json json = Json::object();
  visit_fields(summary, [&](const char* key, const auto& value) { json[key] = value; });
  return json;
}

}  // namespace

std::string print_summary(const Summary& summary) {
  return print_json(json_of(summary), {.indent = 2, .replace_invalid = true}) + '\n';
}

std::string result_line(const RunResult& end) {
  const Json json = {{"steps", end.steps},
                     {"finished", end.finished},
                     {"folder", end.folder},
                     {"summary", end.finished && !end.elsewhere ? json_of(end.summary) : Json()}};
  return print_json(json, {.replace_invalid = true});
}

void write_summary(const fs::path& file, const Summary& summary) {
  write_file(file, print_summary(summary));
}

Summary read_summary(const fs::path& file) {
  return parse_summary(read_text_file(file), file.string());
}

Summary parse_summary(std::string_view text, const std::string& origin) {
  Json json = try_parse_json<Json>(text);
  if (json.is_discarded()) {
    throw Error(
        fmt::format("{} is damaged: it is {}; remove it, and `thinwire train` writes it again",
                    origin, json_fault(text, "not JSON")));
  }
  if (json.is_object()) {  // what earlier versions did not write
    json.emplace("compute_utilization", 0.0);
    json.emplace("train_loss_steps", 0);
    json.emplace("within", "none");
    json.emplace("scores", Json::object());
  }
  const JsonFields fields(json, origin);
  Summary summary;
  visit_fields(summary, Reader{fields, origin});
  return summary;
}

}  // namespace thinwire::events

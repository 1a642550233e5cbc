// summary.json: the facts and results of a finished run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "thinwire/base/file.h"

namespace thinwire::events {

struct Summary {
  std::string name;             // run.name
  std::string method;           // sync.method
  std::string within = "none";  // sync.within: what the workers of a cluster do every step
  int64_t workers = 0;
  int64_t steps = 0;
  int64_t tokens = 0;  // trained on, all workers together
  int64_t params = 0;
  int64_t params_non_embedding = 0;
  double train_loss = 0;         // nats per token, mean of the last train_loss_steps; NaN: unknown
  int64_t train_loss_steps = 0;  // 0: a moving average, as in old runs
  std::map<std::string, double> val_loss;  // by validation set
  std::map<std::string, double> scores;    // of tasks, by "task.metric"
  double bytes_sent_per_worker_step = 0;   // own payload counted once
  double bytes_received_per_worker_step = 0;
  // Two yardsticks, 0 where there is nothing to compare (one worker):
  double ratio_ring = 0;  // bytes of one member in a bf16 ring all-reduce / bytes received here
  double ratio_ring_sent = 0;      // the same ring bytes / bytes sent here
  double ratio_report = 0;         // 2 * params / bytes sent here, as in the DisTrO report
  double seconds = 0;              // wall-clock time of training
  double seconds_over_links = 0;   // what it would have been over the links below
  double compute_utilization = 0;  // share of that spent computing; 0: links were not simulated
  double link_down_bit_s = 0;
  double link_up_bit_s = 0;
  double tokens_per_second = 0;
  int64_t peak_memory_bytes = 0;
  std::string digest;  // of the final parameters, 16 hexadecimal digits
};

// A description of train_loss: "mean of the last 50 steps".
std::string describe_train_loss(const Summary& summary);

// The file's text, and back. Numbers that are not finite become null, which reads as NaN. Reading
// throws Error naming `origin` and the key that is missing or of the wrong type; unknown keys are
// allowed.
std::string print_summary(const Summary& summary);
Summary parse_summary(std::string_view text, const std::string& origin);

// How a command that trains ended, for other programs.
struct RunResult {
  int64_t steps = 0;      // completed
  bool finished = false;  // false: it was stopped
  std::string folder;
  Summary summary = {};    // of a finished run
  bool elsewhere = false;  // another process has the summary
};

// In one line: {"steps": …, "finished": …, "folder": …, "summary": …}, the last as print_summary()
// has it, or null.
std::string result_line(const RunResult& end);

// The file appears whole or not at all.
void write_summary(const fs::path& file, const Summary& summary);

// As parse_summary.
Summary read_summary(const fs::path& file);

}  // namespace thinwire::events

#include "thinwire/hosts/pauses.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/process.h"

namespace thinwire::hosts {
namespace {

constexpr int kMinutesOfDay = 24 * 60;
constexpr std::chrono::milliseconds kStopPollInterval(200);
constexpr double kLeastSeconds = 1;     // over which others' use is measured
constexpr double kMeteredSeconds = 60;  // between questions to NetworkManager

// "22" or "22:30"; nothing for anything else.
std::optional<int> minute_of(std::string_view text) {
  const size_t colon = text.find(':');
  const auto number = [](std::string_view digits, int most) -> std::optional<int> {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    if (error != std::errc() || end != digits.end() || value < 0 || value > most) return {};
    return value;
  };
  const auto hour = number(text.substr(0, colon), 24);
  const auto minute = colon == text.npos ? std::optional(0) : number(text.substr(colon + 1), 59);
  if (!hour || !minute || *hour * 60 + *minute > kMinutesOfDay) return std::nullopt;
  return (*hour * 60 + *minute) % kMinutesOfDay;
}

// What NetworkManager says of the connection in use: 1 and 3 are yes and probably yes.
std::optional<bool> ask_whether_metered() {
  const std::string program = find_program("busctl");
  if (program.empty()) return std::nullopt;
  const ProcessOutput output =
      run_process({program, "get-property", "org.freedesktop.NetworkManager",
                   "/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager", "Metered"},
                  "");
  if (!output.state.ok() || !output.text.starts_with("u ")) return std::nullopt;
  return output.text.starts_with("u 1") || output.text.starts_with("u 3");
}

// Empty if it cannot be read, as files of devices that have just gone cannot.
std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return in.bad() ? "" : line;
}

}  // namespace

bool Hours::has(int minute) const {
  return from < to ? from <= minute && minute < to : minute >= from || minute < to;
}

Hours parse_hours(std::string_view text) {
  const size_t dash = text.find('-');
  const auto from = minute_of(text.substr(0, dash));
  const auto to = dash == text.npos ? std::nullopt : minute_of(text.substr(dash + 1));
  if (!from || !to || *from == *to) {
    throw UsageError(fmt::format(
        "--hours must be two different times of day, such as 22-7 or 8:30-17, got \"{}\"", text));
  }
  return {*from, *to};
}

void parse_pause_when(std::string_view text, PauseRules& rules) {
  const std::array<std::pair<std::string_view, bool*>, 3> names{
      {{"busy", &rules.busy}, {"battery", &rules.battery}, {"metered", &rules.metered}}};
  std::istringstream words{std::string(text)};
  for (std::string word; std::getline(words, word, ',');) {
    const auto found = std::ranges::find(names, word, &std::pair<std::string_view, bool*>::first);
    if (found == names.end()) {
      throw UsageError(fmt::format(
          "--pause-when must be busy, battery, metered, or several of them with commas, got \"{}\"",
          text));
    }
    *found->second = true;
  }
}

std::string why_paused(const PauseRules& rules, const MachineUse& use, bool paused) {
  if (rules.hours && !rules.hours->has(use.minute)) {
    const int next = rules.hours->from;
    return fmt::format("it is not to compute before {}:{:02}", next / 60, next % 60);
  }
  if (rules.battery && use.battery) return "the machine runs on its battery";
  if (rules.metered && use.metered) return "the connection is metered";
  if (rules.busy && use.others >= (paused ? kBusyShare / 2 : kBusyShare)) {
    return fmt::format("other programs use {:.0f} % of the processor", 100 * use.others);
  }
  return "";
}

// --- this machine

MachineWatch::MachineWatch(const PauseRules& rules, fs::path root)
    : rules_(rules), root_(std::move(root)) {
  if (rules_.metered) {
    const auto metered = ask_whether_metered();
    if (!metered) {
      throw UsageError(
          "--pause-when metered: only NetworkManager, asked by busctl, knows that, and it does not "
          "answer here");
    }
    metered_ = *metered;
    asked_at_ = monotonic_seconds();
  }
  if (rules_.battery && !fs::exists(root_ / "sys/class/power_supply")) {
    throw UsageError(
        "--pause-when battery: this machine does not say how it is powered "
        "(/sys/class/power_supply)");
  }
  if (rules_.busy && !computed_seconds(root_)) {
    throw UsageError(
        "--pause-when busy: this machine does not say how much its processor is used (/proc/stat)");
  }
}

MachineUse MachineWatch::look(double now) {
  MachineUse use;
  const std::time_t time = std::time(nullptr);
  std::tm local{};
  localtime_r(&time, &local);
  use.minute = 60 * local.tm_hour + local.tm_min;
  if (rules_.busy) use.others = others_by(now);
  use.battery = rules_.battery && is_on_battery();
  use.metered = rules_.metered && is_metered(now);
  return use;
}

double MachineWatch::others_by(double now) {
  if (last_at_ && now - *last_at_ < kLeastSeconds) return others_;
  const auto latest = computed_seconds(root_);
  if (!latest) return others_;
  if (last_at_) {
    const double others = (latest->all - last_.all) - (latest->own - last_.own);
    others_ = std::max(0.0, others) / ((now - *last_at_) * cores_here(root_).machine);
  }
  last_ = *latest;
  last_at_ = now;
  return others_;
}

// A mouse's battery is of no interest.
bool MachineWatch::is_on_battery() const {
  bool discharges = false;
  std::error_code problem;
  fs::directory_iterator entry(root_ / "sys/class/power_supply", problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    const fs::path& path = entry->path();
    if (first_line(path / "scope") == "Device") continue;
    const bool is_battery = first_line(path / "type") == "Battery";
    if (!is_battery && first_line(path / "online") == "1") return false;
    discharges |= is_battery && first_line(path / "status") == "Discharging";
  }
  return discharges;
}

bool MachineWatch::is_metered(double now) {
  if (now - asked_at_ < kMeteredSeconds) return metered_;
  asked_at_ = now;
  metered_ = ask_whether_metered().value_or(metered_);
  return metered_;
}

// --- watching

Pauses::Pauses(PauseRules rules, std::function<MachineUse()> look, const std::atomic<bool>* stop,
               events::MessageSink message, Times times)
    : rules_(rules),
      look_(std::move(look)),
      stop_(stop),
      message_(std::move(message)),
      times_(times) {
  why_ = this->look(false);
  leaves_ = !why_.empty() || stopped();
  thread_ = std::thread([this] { watch(); });
}

Pauses::~Pauses() {
  {
    const Lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::string Pauses::look(bool paused) {
  try {
    use_ = look_();
  } catch (const std::exception& error) {
    message_(fmt::format("cannot see what this machine is doing: {}", plain_message(error)));
  }
  std::string why = why_paused(rules_, use_, paused);
  const double now = monotonic_seconds();
  const bool busy = rules_.busy && use_.others >= (paused ? kBusyShare / 2 : kBusyShare);
  if (busy) busy_at_ = now;
  const bool lately = paused && busy_at_ >= 0 && now - busy_at_ < times_.least_s;
  if (why.empty() && lately) return "other programs used the processor a moment ago";
  return why;
}

// What asks the member to leave holds until it has left: whoever is told to stop relies on that.
void Pauses::watch() {
  Stopwatch since_look;
  const Lock lock(mutex_);
  const auto often = std::min<std::chrono::duration<double>>(
      kStopPollInterval, std::chrono::duration<double>(times_.look_s));
  while (!ends_) {
    changed_.wait_for(mutex_, often, [this]() REQUIRES(mutex_) { return ends_; });
    if (since_look.seconds() >= times_.look_s) {
      since_look = {};
      const bool paused = !why_.empty();
      std::string why;
      {
        const Unlock meanwhile(mutex_);
        why = look(paused);
      }
      why_ = std::move(why);
      changed_.notify_all();
    }
    if (!why_.empty() || stopped()) leaves_ = true;
  }
}

bool Pauses::wait(const std::function<bool()>& ends) {
  bool said = false;
  {
    const Lock lock(mutex_);
    while (!why_.empty() && !stopped()) {
      bool ended = false;
      {
        const std::string why = why_;
        const Unlock meanwhile(mutex_);
        if (!std::exchange(said, true)) {
          message_(fmt::format("pauses, because {}; returns by itself", why));
        }
        ended = ends();
      }
      if (ended) break;
      if (!why_.empty()) changed_.wait_for(mutex_, kStopPollInterval);
    }
    if (stopped()) return false;
    leaves_ = false;
  }
  if (said) message_("goes on");
  return true;
}

}  // namespace thinwire::hosts

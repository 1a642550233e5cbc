#include "thinwire/base/cores.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "thinwire/base/units.h"

namespace thinwire {

void visit_groups(const fs::path& root, std::string_view controller,
                  const std::function<void(GroupVersion version, const fs::path& group)>& visit) {
  const fs::path all = root / "sys/fs/cgroup";
  const auto visit_path = [&](GroupVersion version, const fs::path& base, fs::path path) {
    for (;; path = path.parent_path()) {
      visit(version, base / path.relative_path());
      if (path == path.parent_path()) return;
    }
  };
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "4:cpu,cpuacct:/path"
    const size_t names = line.find(':');
    const size_t path = line.find(':', names + 1);
    if (names == std::string::npos || path == std::string::npos) continue;
    const std::string controllers = line.substr(names + 1, path - names - 1);
    if (controllers.empty()) visit_path(GroupVersion::kSecond, all, line.substr(path + 1));
    const std::string listed = "," + controllers + ",";
    if (listed.find("," + std::string(controller) + ",") == std::string::npos) continue;
    // The folder of several controllers has links with the name of each, but not everywhere.
    const fs::path own = all / controller;
    visit_path(GroupVersion::kFirst, fs::exists(own) ? own : all / controllers,
               line.substr(path + 1));
  }
}

std::optional<double> number_in(const fs::path& file) {
  std::ifstream in(file);
  double value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

namespace {

// Seconds of computing a second, of "150000 100000" or "max 100000".
std::optional<double> second_version(const fs::path& group) {
  std::ifstream in(group / "cpu.max");
  double time = 0;
  double period = 0;
  if (in >> time >> period && period > 0) return time / period;
  return std::nullopt;
}

std::optional<double> first_version(const fs::path& group) {
  const auto time = number_in(group / "cpu.cfs_quota_us");  // -1: no limit
  const auto period = number_in(group / "cpu.cfs_period_us");
  if (time && period && *time > 0 && *period > 0) return *time / *period;
  return std::nullopt;
}

int cores_of_mask(int machine) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return machine;  // it has more than 1024
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace

int Cores::usable() const {
  if (quota <= 0 || quota >= affinity) return affinity;
  return std::max(1, static_cast<int>(quota));
}

std::string Cores::describe() const {
  if (usable() == machine) return counted(int64_t{machine}, "core");
  const std::string why = usable() < affinity
                              ? fmt::format("a quota of CPU time allows {:.3g}", quota)
                              : "the affinity mask allows no others";
  return fmt::format("{} of {} ({})", usable(), counted(int64_t{machine}, "core"), why);
}

Cores cores_here(const fs::path& root) {
  Cores cores;
  cores.machine = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (const long online = ::sysconf(_SC_NPROCESSORS_ONLN); online > cores.machine) {
    cores.machine = static_cast<int>(online);
  }
  cores.affinity = cores_of_mask(cores.machine);
  visit_groups(root, "cpu", [&](GroupVersion version, const fs::path& group) {
    const auto allowed =
        version == GroupVersion::kSecond ? second_version(group) : first_version(group);
    if (allowed && (cores.quota == 0 || *allowed < cores.quota)) cores.quota = *allowed;
  });
  return cores;
}

int available_cores() { return cores_here().usable(); }

// /proc/stat: user, nice, system, idle, iowait, irq, softirq, in clock ticks.
std::optional<ComputedSeconds> computed_seconds(const fs::path& root) {
  ComputedSeconds computed;
  std::ifstream in(root / "proc/stat");
  std::string word;
  in >> word;
  for (int column = 0; column < 7; ++column) {
    double ticks = 0;
    in >> ticks;
    const bool idles = column == 3 || column == 4;
    if (!idles) computed.all += ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  if (!in || computed.all == 0) return std::nullopt;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime}) {
      computed.own += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    }
  }
  return computed;
}

}  // namespace thinwire

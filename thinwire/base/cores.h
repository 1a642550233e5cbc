// How many cores this process may use.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/base/file.h"

namespace thinwire {

struct Cores {
  int machine = 1;   // that are there
  int affinity = 1;  // on which it may run
  double quota = 0;  // seconds of computing a second that its control groups allow; 0: no limit

  // The number of threads that can compute all the time, at least 1. Where a quota is no whole
  // number, the rest lets other threads run beside them.
  int usable() const;
  // "2 cores", "2 of 32 cores (a quota of CPU time allows 2.5)".
  std::string describe() const;
};

// `root` is where /proc and /sys/fs/cgroup are found.
Cores cores_here(const fs::path& root = "/");

// What is usable here.
int available_cores();

// Seconds of computing, over all cores: of everybody since the machine started, and of this process
// and the children that it has waited for.
struct ComputedSeconds {
  double all = 0;
  double own = 0;
};
// Nothing if /proc, found in `root`, does not say.
std::optional<ComputedSeconds> computed_seconds(const fs::path& root = "/");

// The Linux control groups that a process is in. Each may allow it less than the machine has, and
// what holds is the least that one of them allows.
enum class GroupVersion : uint8_t { kFirst, kSecond };

// Calls `visit` with the folder of this process's group for a controller ("cpu", "memory") and with
// those of the groups around it, in each version that there is. `root` is where /proc and
// /sys/fs/cgroup are found; the folders need not exist.
void visit_groups(const fs::path& root, std::string_view controller,
                  const std::function<void(GroupVersion version, const fs::path& group)>& visit);

// The number that a file begins with; nothing if it is missing or says "max".
std::optional<double> number_in(const fs::path& file);

}  // namespace thinwire

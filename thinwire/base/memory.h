// How much memory this machine has, and whether work that is about to begin fits into it: the need
// is predicted and compared before anything large is allocated.
#pragma once

#include <string>
#include <vector>

#include "thinwire/base/file.h"

namespace thinwire {

// In bytes, for this process: the machine's memory, or less where a control group (v1 or v2, its
// own or one around it) allows less.
struct MachineMemory {
  double total = 0;      // swap included; 0: unknown
  double available = 0;  // without evicting anything
};

// `root` is where /proc and /sys/fs/cgroup are found.
MachineMemory machine_memory(const fs::path& root = "/");

struct MemoryPart {
  std::string name;
  double bytes = 0;
};

// The memory that some work is predicted to need.
struct MemoryNeed {
  std::string what;  // "this run"
  std::vector<MemoryPart> parts;
  std::string advice;  // "lower model.hidden = 4096"; may be empty
  double total() const;
  // "this run needs 80 GB of memory (weights 20 GB, gradients 20 GB)": parts of at least 1 %, the
  // largest first.
  std::string describe() const;
};

// Throws UsageError if `need` exceeds the machine's total memory; the message gives both figures,
// the parts and the advice. Returns a warning if it only exceeds what is free now, else an empty
// string.
std::string check_memory(const MemoryNeed& need, const MachineMemory& there = machine_memory());

}  // namespace thinwire

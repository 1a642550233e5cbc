// How much memory there is, and whether something that is about to begin can fit into it: sizes are
// predicted and compared before anything large is allocated.
#pragma once

#include <string>
#include <vector>

#include "thinwire/base/file.h"

namespace thinwire {

// In bytes, for this process: the machine's, or less where a control group (v1 or v2, its own or
// one around it) allows less.
struct MachineMemory {
  double total = 0;      // swap included; 0: unknown
  double available = 0;  // without pushing anything out
};

// `root` is where /proc and /sys/fs/cgroup are found.
MachineMemory machine_memory(const fs::path& root = "/");

struct MemoryPart {
  std::string name;
  double bytes = 0;
};

// What something is predicted to take.
struct MemoryNeed {
  std::string what;  // "this run"
  std::vector<MemoryPart> parts;
  std::string advice;  // "lower model.hidden = 4096"; may be empty
  double total() const;
  // "this run needs 80 GB of memory (weights 20 GB, gradients 20 GB)": parts of at least 1 %, the
  // largest first.
  std::string describe() const;
};

// Throws UsageError where `need` is more than there is at all; it tells both, the parts and the
// advice. Returns a warning where it is more than is free now, else nothing.
std::string check_memory(const MemoryNeed& need, const MachineMemory& there = machine_memory());

}  // namespace thinwire

#include "thinwire/base/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/units.h"

namespace thinwire {
namespace {

constexpr double kKiB = 1024;
constexpr double kSmallestShownPart = 0.01;

// The number after `key` in a file of such lines, if there is one.
std::optional<double> value_of(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  std::string name;
  double value = 0;
  for (std::string line; std::getline(in, line);) {
    if (std::istringstream(line) >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

// The files of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // in memory.stat: cached files that would be evicted
};

constexpr GroupFiles kFirstVersion = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                      "total_inactive_file"};
constexpr GroupFiles kSecondVersion = {"memory.max", "memory.current", "inactive_file"};

// Lowers `memory` to what the group allows.
void apply_group(MachineMemory& memory, const GroupFiles& files, const fs::path& group) {
  const auto limit = number_in(group / files.limit);
  if (!limit) return;
  const double used = number_in(group / files.usage).value_or(0) -
                      value_of(group / "memory.stat", files.reclaimable).value_or(0);
  memory.total = std::min(memory.total, *limit);
  memory.available = std::min(memory.available, std::max(0.0, *limit - std::max(0.0, used)));
}

}  // namespace

MachineMemory machine_memory(const fs::path& root) {
  const fs::path facts = root / "proc/meminfo";
  MachineMemory memory;
  memory.total =
      kKiB * (value_of(facts, "MemTotal:").value_or(0) + value_of(facts, "SwapTotal:").value_or(0));
  memory.available = kKiB * value_of(facts, "MemAvailable:").value_or(0);
  visit_groups(root, "memory", [&](GroupVersion version, const fs::path& group) {
    apply_group(memory, version == GroupVersion::kFirst ? kFirstVersion : kSecondVersion, group);
  });
  return memory;
}

double MemoryNeed::total() const {
  double sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

std::string MemoryNeed::describe() const {
  const double all = total();
  std::vector<MemoryPart> sorted = parts;
  std::ranges::stable_sort(sorted, std::ranges::greater(), &MemoryPart::bytes);
  std::string shown;
  for (const MemoryPart& part : sorted) {
    if (part.bytes < kSmallestShownPart * all) continue;
    shown += fmt::format("{}{} {}", shown.empty() ? "" : ", ", part.name, format_bytes(part.bytes));
  }
  return fmt::format("{} needs {} of memory ({})", what, format_bytes(all), shown);
}

std::string check_memory(const MemoryNeed& need, const MachineMemory& there) {
  const double all = need.total();
  if (there.total == 0 || all <= there.available) return {};
  const std::string advice = need.advice.empty() ? "" : "; " + need.advice;
  if (all > there.total) {
    throw UsageError(fmt::format("{}, but at most {} are available{}", need.describe(),
                                 format_bytes(there.total), advice));
  }
  return fmt::format("{}, but only {} of {} are free{}", need.describe(),
                     format_bytes(there.available), format_bytes(there.total), advice);
}

}  // namespace thinwire

// What a member's share of a run costs its machine: energy, and the CO2 by which that was made
// (thinwire join --watts, --grid). docs/operations.md, "What each member has contributed".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/base/cores.h"
#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/membership/messages.h"

namespace thinwire::hosts {

// The energy that processors count: those of /sys/class/powercap/intel-rapl* (Intel's and AMD's
// running average power limit) that are whole packages, and the memory beside them.
class PackageCounters {
 public:
  // `root` is where /sys is found.
  explicit PackageCounters(const fs::path& root);
  // Whether there are any, and this user may read them. Kernels since 5.10 allow that to root only.
  bool there() const { return !counters_.empty(); }
  bool readable() const { return readable_; }
  // Joules since the last call, of all packages; those that cannot be read count as 0.
  double joules();

 private:
  struct Counter {
    fs::path file;
    double wraps_at = 0;  // microjoules
    double last = 0;      // likewise
  };
  std::vector<Counter> counters_;
  bool readable_ = false;
};

// The energy of a GPU: its power, as nvidia-smi says it every few seconds, times the time.
class GpuMeter {
 public:
  // `watts` says the power now, or a negative number if nobody knows it; it may take its time. It
  // is asked every so many seconds.
  explicit GpuMeter(std::function<double()> watts, double every_s = 5);
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;
  // Joules since the last call.
  double joules();

 private:
  void watch();

  const std::function<double()> watts_;
  const double every_s_;
  Mutex mutex_;
  Condition changed_;
  double joules_ GUARDED_BY(mutex_) = 0;
  bool ends_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The power in watts that nvidia-smi says of the GPU that CUDA_VISIBLE_DEVICES names first, or else
// of the first one. Negative if there is no such program, or it says something else.
double gpu_watts();

struct EnergyRules {
  double watts = 0;       // that the machine draws while it computes; 0: it is measured
  double grid_g_kwh = 0;  // grams of CO2 for a kilowatt-hour; 0: not known
};

// Used by one thread at a time.
class EnergyMeter {
 public:
  // `gpu`: the GPU that the member computes with; null: none, or it cannot be measured. `root` is
  // where /proc and /sys are found.
  EnergyMeter(const EnergyRules& rules, std::unique_ptr<GpuMeter> gpu, fs::path root = "/");

  // Why nothing is known of this machine's energy, for users; empty: something is.
  std::string why_unknown() const;
  // Else what, for users: "energy: 65 W while it computes".
  std::string describe() const;
  // What was spent since the last call, at the end of which the member computed for `seconds`. With
  // watts these times the seconds. Else what the packages have used since it was last read, half a
  // second ago or more, times this process's share of all processor time, and the GPU's energy.
  membership::Spent spent(double seconds);

 private:
  double package_joules();

  const EnergyRules rules_;
  const std::unique_ptr<GpuMeter> gpu_;
  const fs::path root_;
  PackageCounters packages_;
  ComputedSeconds last_;
};

}  // namespace thinwire::hosts

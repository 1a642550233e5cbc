#include "thinwire/hosts/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/process.h"

namespace thinwire::hosts {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kJoulesPerKwh = 3.6e6;
constexpr double kLeastSeconds = 0.5;  // of computing by anybody, over which a share is measured

std::string word_in(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

// "package-0" and, within it, "dram"; others are parts of a package, or count more than it
// ("psys").
bool is_counted(const fs::path& zone) {
  const std::string name = word_in(zone / "name");
  return name.starts_with("package") || name == "dram";
}

}  // namespace

PackageCounters::PackageCounters(const fs::path& root) {
  std::error_code problem;
  fs::directory_iterator entry(root / "sys/class/powercap", problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    const fs::path& zone = entry->path();
    if (!zone.filename().string().starts_with("intel-rapl:") || !is_counted(zone)) continue;
    counters_.push_back(
        {zone / "energy_uj", number_in(zone / "max_energy_range_uj").value_or(0), 0});
  }
  readable_ = !counters_.empty() && std::ranges::all_of(counters_, [](const Counter& one) {
    return number_in(one.file).has_value();
  });
  (void)joules();
}

double PackageCounters::joules() {
  double all = 0;
  for (Counter& one : counters_) {
    const auto now = number_in(one.file);
    if (!now) continue;
    const double used = *now - std::exchange(one.last, *now);
    all += kMicro * (used < 0 ? used + one.wraps_at : used);
  }
  return std::max(0.0, all);
}

GpuMeter::GpuMeter(std::function<double()> watts, double every_s)
    : watts_(std::move(watts)), every_s_(every_s), thread_([this] { watch(); }) {}

GpuMeter::~GpuMeter() {
  {
    const Lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void GpuMeter::watch() {
  Stopwatch since;
  while (true) {
    const double watts = watts_();
    const Lock lock(mutex_);
    const double seconds = std::exchange(since, Stopwatch()).seconds();
    if (watts > 0) joules_ += watts * seconds;
    changed_.wait_for(mutex_, std::chrono::duration<double>(every_s_),
                      [this]() REQUIRES(mutex_) { return ends_; });
    if (ends_) return;
  }
}

double GpuMeter::joules() {
  const Lock lock(mutex_);
  return std::exchange(joules_, 0);
}

double gpu_watts() {
  const std::string program = find_program("nvidia-smi");
  if (program.empty()) return -1;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string all = visible == nullptr || *visible == 0 ? "0" : visible;
  const std::string first = all.substr(0, all.find(','));
  try {
    const ProcessOutput output = run_process(
        {program, "--query-gpu=power.draw", "--format=csv,noheader,nounits", "--id=" + first}, "");
    std::istringstream answer(output.text);
    double watts = -1;
    return output.state.ok() && answer >> watts ? watts : -1;
  } catch (const Error&) {  // it could not be started
    return -1;
  }
}

EnergyMeter::EnergyMeter(const EnergyRules& rules, std::unique_ptr<GpuMeter> gpu, fs::path root)
    : rules_(rules),
      gpu_(std::move(gpu)),
      root_(std::move(root)),
      packages_(root_),
      last_(computed_seconds(root_).value_or(ComputedSeconds())) {}

std::string EnergyMeter::why_unknown() const {
  if (rules_.watts > 0 || packages_.readable() || gpu_ != nullptr) return "";
  return packages_.there() ? "only root may read the processor's counters (/sys/class/powercap)"
                           : "this machine does not count it";
}

std::string EnergyMeter::describe() const {
  if (rules_.watts > 0) return fmt::format("energy: {:g} W while it computes", rules_.watts);
  const char* const gpu = gpu_ == nullptr ? "" : ", and of its GPU, as nvidia-smi says";
  if (packages_.readable()) {
    return fmt::format(
        "energy: of the processor, by its counters and this process's share of processor time (an "
        "estimate){}",
        gpu);
  }
  return "energy: of its GPU, as nvidia-smi says; not of the processor";
}

membership::Spent EnergyMeter::spent(double seconds) {
  membership::Spent spent{.seconds = seconds};
  spent.joules = rules_.watts > 0 ? rules_.watts * seconds : package_joules();
  if (rules_.watts == 0 && gpu_ != nullptr) spent.joules += gpu_->joules();
  spent.grams = spent.joules / kJoulesPerKwh * rules_.grid_g_kwh;
  return spent;
}

double EnergyMeter::package_joules() {
  if (!packages_.readable()) return 0;
  const auto now = computed_seconds(root_);
  if (!now || now->all - last_.all < kLeastSeconds) return 0;
  const double share = (now->own - last_.own) / (now->all - last_.all);
  last_ = *now;
  return std::clamp(share, 0.0, 1.0) * packages_.joules();
}

}  // namespace thinwire::hosts

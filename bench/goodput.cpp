// What becomes of members' work where some are slow or fail: a coordinator and members without a
// model in virtual time (tests/membership), under three settings of [sync]. Prints a row for each:
//
//   rounds   closed in an hour
//   counted  rows that became part of the model, of those that all members could have computed had
//            none failed or waited
//   left out members of a round that it closed without
//   late     contributions that counted in a later round, of all that counted
//
//   goodput [HOURS [SEED]]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <string>

#include "tests/membership/simulated_run.h"

namespace thinwire::membership {
namespace {

constexpr int kMembers = 16;
constexpr int kRows = 10;              // of a round, an even share
constexpr double kRoundSeconds = 120;  // of a member at full speed, with an even share
constexpr double kRepairSeconds = 180;
constexpr double kTimeoutSeconds = 1800;

struct Variant {
  const char* name;
  double quorum;
  bool late_counts;
};
constexpr Variant kVariants[] = {
    {"waiting", 1, false}, {"quorum, drop", 0.6, false}, {"quorum, count", 0.6, true}};

struct Scene {
  const char* name;
  int slow;  // members at `slowness` times the seconds
  double slowness;
  double hours_up;  // mean time until a member's process dies; 0: never
};
constexpr Scene kScenes[] = {
    {"none slow, none fail", 0, 1, 0},           {"2 of 16 at 2/3 of the speed", 2, 1.5, 0},
    {"4 of 16 at 1/2 of the speed", 4, 2, 0},    {"4 of 16 at 1/4 of the speed", 4, 4, 0},
    {"each fails every 8 h", 0, 1, 8},           {"each fails every hour", 0, 1, 1},
    {"4 at 1/2, each fails every hour", 4, 2, 1}};

// Rounds of one step of an even share of rows for each member.
class Plan final : public StepPlan {
 public:
  uint64_t workers() const override { return kMembers; }
  uint64_t batch() const override { return kMembers * kRows; }
  uint64_t overlap() const override { return 0; }
  uint64_t rounds() const override { return UINT32_MAX; }
  Opening round(uint64_t number) const override {
    Opening opening;
    opening.round = opening.first_step = number;
    opening.steps = {{0.5f}};
    opening.operations = {{0, 1000}};
    return opening;
  }
  uint64_t round_of(uint64_t step) const override { return step; }
  bool ends_after(uint64_t) const override { return true; }
  uint64_t settled_rounds(uint64_t completed) const override { return completed; }
};

class Run {
 public:
  Run(const Scene& scene, const Variant& variant, uint64_t seed)
      : scene_(scene), rng_(seed, 3), network_(seed), run_(network_, plan_, settings(variant)) {}

  // Throws what must never happen.
  void run(double seconds) {
    run_.coordinator(0).start();
    for (size_t i = 0; i < run_.members(); ++i) {
      run_.member(i).start(true);
      if (scene_.hours_up > 0) plan_death(run_.member(i));
    }
    network_.run(seconds, [this] { return !run_.violation().empty(); });
    if (!run_.violation().empty()) throw Error(run_.violation());
    seconds_ = seconds;
  }

  std::string row() const {
    uint64_t rounds = 0, rows = 0, missing = 0, counted = 0, late = 0;
    for (uint64_t at = 1; at <= network_.ledger.last(); ++at) {
      const Record record = *decode_record(*network_.ledger.read(at));
      if (!record.closing) continue;
      ++rounds;
      missing += record.closing->missing.size();
      for (const Contribution& one : record.closing->commits.at(0).contributions) {
        rows += one.weight;
        ++counted;
        late += one.round != record.closing->round ? 1 : 0;
      }
    }
    const auto share = [](uint64_t part, double whole) {
      return 100 * part / std::max(1.0, whole);
    };
    return fmt::format("{:9.1f} {:8.1f} % {:10.1f} % {:6.1f} %", rounds * 3600 / seconds_,
                       share(rows, capacity_ * seconds_), share(missing, missing + counted),
                       share(late, counted));
  }

 private:
  RunSettings settings(const Variant& variant) {
    RunSettings settings;
    settings.options.timeout_s = kTimeoutSeconds;
    settings.options.quorum = variant.quorum;
    settings.options.late_counts = variant.late_counts;
    for (int i = 0; i < kMembers; ++i) {
      const double seconds = kRoundSeconds / kRows * (i < scene_.slow ? scene_.slowness : 1);
      capacity_ += 1 / seconds;
      settings.seconds_per_row.push_back(seconds);
    }
    return settings;
  }

  // Its process dies at some time, its connection ends, and it comes back with its disk.
  void plan_death(SimulatedMember& member) {
    const double up = -std::log(1 - rng_.uniform()) * scene_.hours_up * 3600;
    network_.after(up, [this, one = &member] {
      one->stop();
      run_.tell_departed(*one);
      network_.after(kRepairSeconds, [this, one] {
        one->start(true);
        plan_death(*one);
      });
    });
  }

  const Scene& scene_;
  double capacity_ = 0;  // rows a second of all members
  double seconds_ = 0;
  Rng rng_;
  Network network_;
  const Plan plan_;
  SimulatedRun run_;
};

void compare(double hours, uint64_t seed) {
  for (const Scene& scene : kScenes) {
    fmt::print("{}\n{:16} {:>9} {:>10} {:>12} {:>8}\n", scene.name, "", "rounds", "counted",
               "left out", "late");
    for (const Variant& variant : kVariants) {
      Run run(scene, variant, seed);
      run.run(hours * 3600);
      fmt::print("{:16} {}\n", variant.name, run.row());
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace thinwire::membership

int main(int count, char** arguments) {
  const double hours = count > 1 ? std::strtod(arguments[1], nullptr) : 24;
  const auto seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  if (hours <= 0) {
    fmt::print(stderr, "goodput: HOURS must be above 0, got {}\n", arguments[1]);
    return 2;
  }
  try {
    thinwire::membership::compare(hours, seed);
  } catch (const std::exception& error) {
    fmt::print(stderr, "goodput: {}\n", error.what());
    return 1;
  }
}

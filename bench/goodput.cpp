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
#include <functional>
#include <memory>
#include <vector>

#include "tests/membership/simulation.h"

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
class Plan final : public RunPlan {
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
};

class Run {
 public:
  Run(const Scene& scene, const Variant& variant, uint64_t seed)
      : scene_(scene), rng_(seed, 3), network_(seed), stage_{network_, options_, 0, {},
                                                             {},       {},       {}} {
    options_.timeout_s = kTimeoutSeconds;
    options_.quorum = variant.quorum;
    options_.late_counts = variant.late_counts;
    const Sha256 weights = sha256(as_bytes("weights"));
    stage_.snapshots[weights] = Replica{{}, weights, {}, false};
    network_.put(weights);
    network_.sync();
    stage_.on_applied = [](int, const Replica&) {};
    stage_.on_discarded = [](int) {};
    stage_.send = [this](Host& from, const Input& input) {
      network_.to_store(from, [this, input] {
        network_.to_host(*coordinator_, [this, input] { coordinator_->receive(input); });
      });
    };
    const auto ask = [this](const Action& action) { answer(action); };
    coordinator_ = std::make_unique<CoordinatorHost>(network_, plan_, options_, 0, false, ask);
    network_.add(coordinator_.get());
    const double row_seconds = kRoundSeconds / kRows;
    for (int i = 0; i < kMembers; ++i) {
      const double slowness = i < scene.slow ? scene.slowness : 1;
      capacity_ += 1 / (row_seconds * slowness);
      members_.push_back(std::make_unique<FakeMember>(stage_, i, row_seconds * slowness));
      network_.add(members_.back().get());
    }
  }

  void run(double seconds) {
    coordinator_->start();
    for (auto& one : members_) {
      one->start(true);
      if (scene_.hours_up > 0) plan_death(*one);
    }
    network_.run(seconds, [] { return false; });
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
  void answer(const Action& action) {
    const auto* records = std::get_if<AskRecords>(&action);
    const auto* snapshot = std::get_if<AskSnapshot>(&action);
    if (records == nullptr && snapshot == nullptr) return;
    const int id = records != nullptr ? records->member : snapshot->member;
    for (auto& one : members_) {
      if (one->id() != id) continue;
      network_.to_host(*one, [member = one.get(), action] {
        if (const auto* lost = std::get_if<AskRecords>(&action)) {
          member->on_ask_records(lost->first);
        } else {
          member->on_ask_snapshot();
        }
      });
    }
  }

  // Its process dies at some time, its connection ends, and it comes back with its disk.
  void plan_death(FakeMember& member) {
    const double up = -std::log(1 - rng_.uniform()) * scene_.hours_up * 3600;
    network_.after(up, [this, one = &member] {
      one->stop();
      coordinator_->receive(Departed{one->key()});
      network_.after(kRepairSeconds, [this, one] {
        one->start(true);
        plan_death(*one);
      });
    });
  }

  const Scene& scene_;
  Rng rng_;
  Network network_;
  Options options_;
  Plan plan_;
  Stage stage_;
  std::unique_ptr<CoordinatorHost> coordinator_;
  std::vector<std::unique_ptr<FakeMember>> members_;
  double capacity_ = 0;  // rows a second of all members
  double seconds_ = 0;
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
  const double hours = count > 1 ? std::atof(arguments[1]) : 24;
  const auto seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  if (hours <= 0) {
    fmt::print(stderr, "goodput: HOURS must be above 0, got {}\n", arguments[1]);
    return 2;
  }
  thinwire::membership::compare(hours, seed);
}

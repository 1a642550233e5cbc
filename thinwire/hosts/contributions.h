// What each member has contributed to a served run: rows and bytes as the ledger has them, and the
// time, energy and CO2 that it spent on them as it said in its offers, which it signs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/record.h"

namespace thinwire::hosts {

struct Contributed {
  uint64_t rows = 0;   // that counted, over all steps
  uint64_t bytes = 0;  // of payloads that counted
  membership::Spent spent = {};
  double hours() const { return spent.seconds / 3600; }
  double kilowatt_hours() const { return spent.joules / 3.6e6; }
  double co2_kg() const { return spent.grams / 1000; }
  bool operator==(const Contributed&) const = default;
};

// For users: "0.42 kWh", "12.3 g"; empty where it is not known.
std::string format_energy(const Contributed& contributed);
std::string format_co2(const Contributed& contributed);

// What a user should know where all members have as many rows, and so wait for the slowest: how
// many times as many rows a second the fastest has computed, of those that have computed for a
// minute. Empty if that is less than 1.5 times as many.
std::string on_speeds(const std::map<int, Contributed>& contributed);

// Thread-safe.
class Contributions {
 public:
  // `file`: keeps what was spent, which no record has, when the coordinator ends; it need not be
  // there. Throws Error if it is damaged.
  explicit Contributions(fs::path file);

  // The ledger's records, from the first on.
  void record(const membership::Record& record);
  // An offer that arrived. It counts if its round's closing lists it.
  void offered(const membership::Offer& offer);
  // Writes the file if there is news, and that is old enough. `now`: seconds of any clock. Throws
  // Error.
  void keep(double now);
  // Writes it now, if there is news.
  void keep_last();

  // By member.
  std::map<int, Contributed> all() const;

 private:
  struct AllSpent {
    std::map<std::pair<int, uint64_t>, membership::Spent> waiting;  // by member and round; the most
    std::map<int, membership::Spent> counted;                       // by member
    bool changed = false;
  };
  void close(const membership::Closing& closing) REQUIRES(mutex_);

  static constexpr double kEverySeconds = 30;

  const fs::path file_;
  double kept_at_ = 0;
  mutable Mutex mutex_;
  std::map<uint64_t, membership::Opening> open_ GUARDED_BY(mutex_);
  std::map<int, Contributed> all_ GUARDED_BY(mutex_);  // without what was spent
  AllSpent spent_ GUARDED_BY(mutex_);
};

}  // namespace thinwire::hosts

// What each member has contributed to a served run: rows and bytes as the ledger has them, and the
// time that it spent computing them as it said in its offers.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/record.h"

namespace thinwire::hosts {

struct Contributed {
  uint64_t rows = 0;   // that counted, over all steps
  uint64_t bytes = 0;  // of payloads that counted
  double seconds = 0;  // spent computing
  bool operator==(const Contributed&) const = default;
};

// Thread-safe.
class Contributions {
 public:
  // `file`: keeps the times, which no record has, when the coordinator ends; it need not be there.
  // Throws Error if it is damaged.
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
  struct Times {
    std::map<std::pair<int, uint64_t>, double> waiting;  // by member and round; the longest
    std::map<int, double> counted;                       // by member
    bool changed = false;
  };
  void close(const membership::Closing& closing) REQUIRES(mutex_);

  static constexpr double kEverySeconds = 30;

  const fs::path file_;
  double kept_at_ = 0;
  mutable Mutex mutex_;
  std::map<uint64_t, membership::Opening> open_ GUARDED_BY(mutex_);
  std::map<int, Contributed> all_ GUARDED_BY(mutex_);  // without times
  Times times_ GUARDED_BY(mutex_);
};

}  // namespace thinwire::hosts

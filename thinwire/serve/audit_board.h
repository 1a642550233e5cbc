// Decides from what auditors found (docs/audits.md) which members do not compute what they are
// assigned. A pure state machine: findings go in, offences come out.
//
// Rules:
//   recomputed   a contribution was recomputed, and differs from what was sent by more than
//                kMaxError of its length, while the median of the other members' last errors does
//                not: an auditor whose arithmetic is wrong convicts nobody.
//   effect       of the last kAuditsKept effects of a member, at least kMinAudits, the mean m is
//                below half of e, the median of the other members' means, by kSpreads standard
//                errors: (e / 2 - m) / (s / sqrt(n)) > kSpreads. s is the larger of the member's
//                own standard deviation and the median of the others'. As effects change during a
//                run, all count only from the latest round on from which nothing was forgotten of
//                the member's or of any other's. As they also depend on how many rows a member has,
//                the rule holds only where all have about as many.
// Members are compared with at least kMinOthers others. A member's findings are forgotten with each
// offence, so the next one needs new ones. What several auditors find is not mixed: each has a
// board of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/membership/messages.h"

namespace thinwire::serve {

inline constexpr double kMaxError = 0.25;
inline constexpr size_t kAuditsKept = 256;
inline constexpr size_t kMinAudits = 8;
inline constexpr double kSpreads = 4;
inline constexpr size_t kMinOthers = 2;

// Not thread-safe.
class AuditBoard {
 public:
  // `equal_rows`: whether members have about as many rows as others.
  explicit AuditBoard(bool equal_rows = true) : equal_rows_(equal_rows) {}

  // What an auditor says; the caller has checked that it is one, and that there is such a member.
  // Returns the reason if this makes an offence of the member, shown to users, else an empty text.
  std::string take(const membership::Audit& audit);
  // What is known of a member at present.
  struct Findings {
    size_t audits = 0;  // kept
    double effect = 0;  // mean
  };
  Findings of(int member) const;

 private:
  struct Effect {
    uint64_t round = 0;
    double value = 0;
  };
  struct Audited {
    std::deque<Effect> effects;
    std::optional<double> error;  // the last
  };
  struct Spread {
    size_t count = 0;
    double mean = 0;
    double deviation = 0;
  };

  static Spread spread_of(const Audited& audited, uint64_t first_round);
  std::string why_wrong(int member, const membership::Audit& audit) const;
  std::string why_ineffective(int member) const;

  bool equal_rows_;
  std::map<int, Audited> members_;
};

}  // namespace thinwire::serve

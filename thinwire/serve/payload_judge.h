// Which of the payloads offered for an operation may count, judged by what they hold beside the
// others'. A pure state machine: contents and the time go in, verdicts come out.
//
// Rules, for the payloads of one operation:
//   norm   one is refused whose norm is so far above the others' that log norm - median exceeds
//          max(ln kNormRatio, kNormSpreads * 1.4826 * MAD), median and MAD over the log norms of
//          all that are here, itself included (Leys et al. 2013, "Detecting outliers: Do not use
//          standard deviation around the mean, use absolute deviation around the median").
//   copy   one is refused that has the same values as another member's that was offered before.
// A payload whose values are all zero is subject to neither.
//
// With fewer than kMinCompared contents there is no majority to compare with, and no norm is
// refused. So that whoever is first is compared, too, payloads wait for a verdict until those of
// more than half of the roster are here, but no longer than `patience_s`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/sha256.h"
#include "thinwire/membership/messages.h"

namespace thinwire::serve {

inline constexpr double kNormRatio = 10;
inline constexpr double kNormSpreads = 6;
inline constexpr size_t kMinCompared = 3;

// What a check finds in a payload.
struct PayloadContent {
  double norm = 0;  // L2, of its values; finite
  Sha256 values;    // the same for payloads that hold the same values
};

struct Verdict {
  membership::Offer offer;
  std::string why;  // it does not count, as text for people; empty: it does
};

// Not thread-safe. Times are seconds of any clock that never goes back.
class PayloadJudge {
 public:
  explicit PayloadJudge(double patience_s) : patience_s_(patience_s) {}

  // An offer was heard; the order of these calls decides who was first.
  void heard(const membership::Offer& offer);
  // The payload of an offer is here, and this is in it; none: it holds nothing to compare. A
  // failure is its verdict. `roster`: the number of members that contribute to the operation. One
  // that comes again, because it was asked for again, gets the verdict that it has, or none yet.
  std::vector<Verdict> take(const membership::Offer& offer,
                            const Result<std::optional<PayloadContent>>& content, size_t roster,
                            double now);
  // Verdicts on payloads that have waited long enough.
  std::vector<Verdict> tick(double now);
  // Nothing of rounds before this one is needed any more.
  void forget_before(uint64_t round);

 private:
  using Name = std::tuple<uint64_t, uint32_t, uint32_t>;  // round, epoch, fragment
  struct Held {
    membership::Offer offer;
    std::optional<PayloadContent> content;
    std::optional<std::string> why = std::nullopt;  // its verdict; none: not judged yet
  };
  struct Operation {
    std::map<std::pair<int, Sha256>, uint64_t> order;  // of offers, by member and payload
    std::vector<Held> held;
    double since = 0;  // when the first payload came
  };

  static Name name_of(const membership::Offer& offer) {
    return {offer.round, offer.epoch, offer.fragment};
  }
  static void judge(Operation& operation, std::vector<Verdict>& verdicts);
  static std::string why_refused(const Operation& operation, const Held& held);
  static std::string copied_from(const Operation& operation, const Held& held);

  const double patience_s_;
  uint64_t offers_ = 0;
  std::map<Name, Operation> operations_;
};

}  // namespace thinwire::serve

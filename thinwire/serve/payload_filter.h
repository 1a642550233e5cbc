// Decides which of the payloads offered for an operation may count, by comparing their contents
// with each other. A pure state machine: contents and the time go in, verdicts come out.
//
// Rules, for the payloads of one operation:
//   norm   a payload is refused if ln(norm) exceeds the median by more than max(ln kNormRatio,
//          kNormSpreads * 1.4826 * MAD), with median and MAD over the ln(norm) of all payloads
//          that have arrived, itself included (Leys et al. 2013, "Detecting outliers: Do not use
//          standard deviation around the mean, use absolute deviation around the median").
//   copy   a payload is refused if another member announced or offered the same values before, or
//          values that it resembles as no honest members' do (near_copies.h).
// A payload whose values are all zero is subject to none.
//
// With fewer than kMinCompared contents there is no majority to compare with, and no norm is
// refused. So that the first payload is compared, too, payloads wait for a verdict until those of
// more than half of the roster and at least kMinCompared have arrived, or of as many as a quorum
// takes, or those of everybody who may still contribute, but no longer than `timeout_s`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/run_plan.h"

namespace thinwire::serve {

inline constexpr double kNormRatio = 10;
inline constexpr double kNormSpreads = 6;
inline constexpr size_t kMinCompared = 3;
// One, and others after it by a member that lost it and computed the round again.
inline constexpr size_t kMaxOffers = 4;

// What a check finds in a payload.
struct PayloadContent {
  double norm = 0;                    // L2, of its values; finite
  Sha256 values;                      // the same for payloads that hold the same values
  std::vector<float> direction = {};  // of its values (codec/value_sketch.h); empty: not compared
  double rows = 1;                    // of its member in the round, above 0
};

struct Verdict {
  membership::Offer offer;
  std::string why;  // the reason why it does not count, shown to users; empty: it counts
};

// Not thread-safe. Times are seconds of any clock that never goes back.
class PayloadFilter {
 public:
  // `may_contribute`: whether a payload of this member may still come. One that left or is absent
  // is not waited for.
  // `quorum`: the share of a round with which it closes (Options::quorum).
  PayloadFilter(double timeout_s, double quorum, std::function<bool(int member)> may_contribute)
      : timeout_s_(timeout_s), quorum_(quorum), may_contribute_(std::move(may_contribute)) {}

  // An offer or its announcement was received; the order of these calls decides which was first.
  // The first kMaxOffers of a member for an operation are remembered; false for the others.
  bool offered(const membership::Offer& offer);
  // The payload of an offer has arrived with this content; none: it holds nothing to compare. A
  // failure is its verdict. `roster`: the members that contribute to the operation. If the same
  // payload arrives again, because it was requested again, its verdict is repeated if it has one.
  std::vector<Verdict> take(const membership::Offer& offer,
                            const Result<std::optional<PayloadContent>>& content,
                            std::vector<int> roster, double now);
  // Verdicts on payloads that have waited long enough, or for members that are gone.
  std::vector<Verdict> tick(double now);
  // Rounds before this one are no longer needed.
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
    bool judges = false;      // there are payloads without a verdict
    std::set<int> arrived;    // members with a payload among these
    std::vector<int> roster;  // as of the last payload
    double since = 0;         // when the first payload arrived

    // In the order of offers; those that were not offered are last.
    uint64_t place(const Held& one) const;
  };

  static Name name_of(const membership::Offer& offer) {
    return {offer.round, offer.epoch, offer.fragment};
  }
  bool has_enough(const Operation& operation) const;
  static void evaluate(Operation& operation, std::vector<Verdict>& verdicts);
  static std::string why_refused(const Operation& operation, const Held& held);
  static std::string copied_from(const Operation& operation, const Held& held);
  static std::string changed_copy_of(const Operation& operation, const Held& held,
                                     const std::vector<const Held*>& earlier);

  const double timeout_s_;
  const double quorum_;
  const std::function<bool(int member)> may_contribute_;
  uint64_t offers_ = 0;
  std::map<Name, Operation> operations_;
};

// Decodes offered payloads with the method's codec (codec/payload.h).

// The content of a payload; none: nothing to compare. A failure says why the payload
// cannot be applied. `weight`: of its member in the round, above 0; if members multiply what they
// send by it, the norm is divided by it, so that members with different numbers of rows can be
// compared.
using PayloadCheck = std::function<Result<std::optional<PayloadContent>>(
    const membership::Offer& offer, uint64_t weight, const Bytes& payload)>;

// For a run with this id. Recipe and plan must outlive the check; used by one thread. Throws
// UsageError for a method whose payloads nobody can read. `seed`: of the sketches by which payloads
// are compared; members should not know it, because they could disguise copies with it.
PayloadCheck payload_check(const config::Recipe& recipe, const membership::RecipePlan& plan,
                           uint64_t run, uint64_t seed);

}  // namespace thinwire::serve

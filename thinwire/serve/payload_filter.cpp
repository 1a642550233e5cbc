#include "thinwire/serve/payload_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/method/operations.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/serve/near_copies.h"
#include "thinwire/sync/algorithm.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::serve {

PayloadCheck payload_check(const config::Recipe& recipe, const membership::RecipePlan& plan,
                           uint64_t run, uint64_t seed) {
  const tensor::Layout layout(sync::exchanged_tensors(recipe));
  const std::shared_ptr<codec::PayloadReader> reader = sync::make_payload_reader(
      method::sync_spec(recipe).method,
      {.layout = layout, .lone_worker = recipe.train.workers == 1, .seed = seed});
  // Masked values have nothing to compare, nor have keys and shares.
  const bool is_hidden = recipe.privacy.secure_sums;
  return [reader, &plan, run, is_hidden](
             const membership::Offer& offer, uint64_t weight,
             const Bytes& payload) -> Result<std::optional<PayloadContent>> {
    // A member of the roster that does not contribute to an operation sends this.
    if (payload.empty()) return std::nullopt;
    const auto name = plan.operation_of(offer.round, offer.fragment);
    if (!name) return fail(FailureKind::kCorruptPayload, "the run has no such operation");
    if (is_hidden) {
      const bool fits = !method::is_own_fragment(offer.fragment) || payload.size() == name->bytes;
      if (fits) return std::nullopt;
      return fail(FailureKind::kCorruptPayload, fmt::format("it has {} bytes where {} are expected",
                                                            payload.size(), name->bytes));
    }
    codec::PayloadId id;
    id.run = run;
    id.epoch = offer.epoch;
    id.sender = static_cast<uint32_t>(offer.member);
    id.round = name->round;
    auto content = reader->read(payload, id, name->bytes);
    if (!content) return tl::unexpected(content.error());
    const auto rows = static_cast<double>(weight);
    const double norm = content->magnitude.norm() / (reader->weighted() ? rows : 1);
    return PayloadContent{norm, sha256(content->body), std::move(content->direction), rows};
  };
}

uint64_t PayloadFilter::Operation::place(const Held& one) const {
  const auto found = order.find({one.offer.member, one.offer.payload});
  return found == order.end() ? UINT64_MAX : found->second;
}

bool PayloadFilter::offered(const membership::Offer& offer) {
  auto& order = operations_[name_of(offer)].order;
  if (order.contains({offer.member, offer.payload})) return true;
  const auto first = order.lower_bound({offer.member, {}});
  const auto end = order.lower_bound({offer.member + 1, {}});
  if (std::cmp_greater_equal(std::distance(first, end), kMaxOffers)) return false;
  order.emplace(std::pair(offer.member, offer.payload), ++offers_);
  return true;
}

std::vector<Verdict> PayloadFilter::take(const membership::Offer& offer,
                                         const Result<std::optional<PayloadContent>>& content,
                                         std::vector<int> roster, double now) {
  Operation& operation = operations_[name_of(offer)];
  if (operation.held.empty()) operation.since = now;
  operation.roster = std::move(roster);
  std::vector<Verdict> verdicts;
  const auto before = std::ranges::find_if(operation.held, [&](const Held& one) {
    return one.offer.member == offer.member && one.offer.payload == offer.payload;
  });
  if (before != operation.held.end()) {
    if (before->why) verdicts.push_back({offer, *before->why});
    return verdicts;
  }
  operation.arrived.insert(offer.member);
  if (content) {
    operation.held.push_back({offer, *content});
    operation.judges = true;
  } else {
    operation.held.push_back({offer, std::nullopt, content.error().message});
    verdicts.push_back({offer, content.error().message});
  }
  if (has_enough(operation)) evaluate(operation, verdicts);
  return verdicts;
}

bool PayloadFilter::has_enough(const Operation& operation) const {
  const size_t members = operation.roster.size();
  const size_t compared = std::max(kMinCompared, members / 2 + 1);
  const auto quorum = static_cast<size_t>(std::ceil(quorum_ * static_cast<double>(members)));
  return operation.arrived.size() >= std::min(compared, quorum) ||
         std::ranges::none_of(operation.roster, [&](int member) {
           return !operation.arrived.contains(member) && may_contribute_(member);
         });
}

std::vector<Verdict> PayloadFilter::tick(double now) {
  std::vector<Verdict> verdicts;
  for (auto& [name, operation] : operations_) {
    if (!operation.judges) continue;
    const bool is_due = now - operation.since >= timeout_s_ || has_enough(operation);
    if (is_due) evaluate(operation, verdicts);
  }
  return verdicts;
}

void PayloadFilter::forget_before(uint64_t round) {
  operations_.erase(operations_.begin(), operations_.lower_bound({round, 0, 0}));
}

void PayloadFilter::evaluate(Operation& operation, std::vector<Verdict>& verdicts) {
  operation.judges = false;
  std::vector<Held*>
      unjudged;  // in the order of offers: copies are known before what they resemble
  for (Held& held : operation.held) {
    if (!held.why) unjudged.push_back(&held);
  }
  std::ranges::stable_sort(unjudged, {}, [&](const Held* one) { return operation.place(*one); });
  for (Held* const held : unjudged) {
    held->why = why_refused(operation, *held);
    verdicts.push_back({held->offer, *held->why});
  }
}

std::string PayloadFilter::why_refused(const Operation& operation, const Held& held) {
  if (!held.content || held.content->norm == 0) return "";
  if (std::string copied = copied_from(operation, held); !copied.empty()) return copied;
  std::vector<double> logs;
  for (const Held& one : operation.held) {
    if (one.content && one.content->norm > 0) logs.push_back(std::log(one.content->norm));
  }
  if (logs.size() < kMinCompared) return "";
  const TypicalRange typical = typical_range(logs, kNormRatio, kNormSpreads);
  const double above = std::log(held.content->norm) - typical.middle;
  if (above <= typical.limit) return "";
  return fmt::format(
      "its norm is {:.3g}, {:.3g} times the median {:.3g} of {} members', beyond "
      "{:.3g} times",
      held.content->norm, std::exp(above), std::exp(typical.middle), logs.size(),
      std::exp(typical.limit));
}

std::string PayloadFilter::copied_from(const Operation& operation, const Held& held) {
  std::vector<const Held*> earlier;  // payloads of other members
  for (const Held& one : operation.held) {
    if (one.offer.member == held.offer.member || !one.content) continue;
    if (operation.place(one) < operation.place(held)) earlier.push_back(&one);
  }
  for (const Held* one : earlier) {
    if (one->content->values != held.content->values) continue;
    return fmt::format("it is a copy of member {}'s", one->offer.member);
  }
  return changed_copy_of(operation, held, earlier);
}

std::string PayloadFilter::changed_copy_of(const Operation& operation, const Held& held,
                                           const std::vector<const Held*>& earlier) {
  if (held.content->direction.empty()) return "";
  std::vector<Compared> all;
  std::map<const Held*, size_t> places;  // in `all`
  for (const Held& one : operation.held) {
    if (!one.content || one.content->direction.empty()) continue;
    places.emplace(&one, all.size());
    all.push_back({one.content->direction, one.content->rows});
  }
  const Resemblance resemblance(all, places.at(&held));
  for (const Held* one : earlier) {
    // Honest ones may resemble a copy, too.
    const bool refused = one->why && !one->why->empty();
    const auto place = places.find(one);
    if (refused || place == places.end() || !resemblance.is_near_copy(place->second)) continue;
    return fmt::format("it is a copy of member {}'s with changes: their cosine is {:.6f}",
                       one->offer.member, resemblance.cosine_with(place->second));
  }
  return "";
}

}  // namespace thinwire::serve

#include "thinwire/serve/coordinator_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/serve/coordinator_host_impl.h"

namespace thinwire::serve {
namespace {

membership::Overdue overdue_name(const Offer& offer) {
  return {offer.member, offer.round, offer.fragment};
}

const HostOptions& checked(const transport::Courier& courier, const Signer& signer,
                           const HostOptions& options) {
  options.membership.check();
  const std::string name = participant_name(signer.key());
  if (courier.self() != name) {
    throw UsageError(fmt::format(
        "a coordinator's courier must have the name of its key, {}, got {}", name, courier.self()));
  }
  return options;
}

// How many refusals are remembered, so that none is told twice.
constexpr size_t kToldRefusals = 1000;

}  // namespace

CoordinatorHost::Impl::Impl(transport::Courier& courier, const Signer& signer,
                            const membership::RunPlan& plan, const HostOptions& options)
    : courier_(courier),
      signer_(signer),
      options_(checked(courier, signer, options)),
      overlap_(plan.overlap()),
      plan_(plan),
      filter_(options_.membership.takeover_s(), options_.membership.quorum,
              [this](int member) { return coordinator_.may_contribute(member); }),
      coordinator_(plan, options_.membership, signer, verify, options_.founding, options_.standby,
                   options_.remembered),
      statements_(subscribe(membership::kMembersTopic)),
      announcements_(subscribe(membership::kAnnouncementsTopic)),
      departures_(courier.subscribe(transport::kServerParticipant, transport::kDepartureTopic,
                                    [inbox = inbox_](const std::string& from, Bytes statement) {
                                      if (from == transport::kServerParticipant) {
                                        inbox->add(ReceivedDeparture{std::move(statement)});
                                      }
                                    })) {
  reading_.begin();
  if (options_.keeps) copies_.begin();
}

void CoordinatorHost::Impl::tick(double now) {
  now_ = now;
  awake_ = clock_.at(now);
  {
    const Lock lock(mutex_);
    published_at_ = awake_;
    reports_.begin(awake_);
  }
  const uint64_t before = coordinator_.state().position.sequence;
  reading_.follow_connection(inputs_);
  for (Arrival& arrival : inbox_->take()) {
    // A statement may refer to the records before it.
    if (records_wait_ && std::holds_alternative<ReceivedStatement>(arrival)) decide();
    std::visit([this](auto& one) { take(std::move(one)); }, arrival);
  }
  carry_out(filter_.tick(awake_));
  decide();
  const membership::State& state = coordinator_.state();
  filter_.forget_before(state.oldest_countable());
  if (coordinator_.leads() && reading_.is_complete()) {
    if (cleaned_ != state.position) cleaner_.clean(state);
    cleaned_ = state.position;
    strays_.tick(state, awake_);
    form_sums(state);
  }
  publish_state();
  tell_members();
  if (state.position.sequence != before) records_.notify(before, state.position.sequence);
  const bool complete = reading_.is_complete();
  const std::pair progress(state.position, complete);
  if (state.position.sequence == 0 || std::exchange(progress_, progress) == progress) return;
  if (options_.hooks.progress) options_.hooks.progress(state, complete);
}

void CoordinatorHost::Impl::applied(const membership::Record& record, bool earlier) {
  if (record.closing) {
    const Lock lock(mutex_);
    reports_.closed(record.sequence);
  }
  if (options_.hooks.record) options_.hooks.record(record, earlier);
}

void CoordinatorHost::Impl::form_sums(const membership::State& state) {
  const auto left = sums_.tick(
      state, awake_,
      [this](const Sha256& blob) {
        return cleaner_.used({courier_.self(), blob}) > 0;
      },
      [this](const PublicKey& key) {
        const Lock lock(mutex_);
        return reports_.down_bytes_s(key);
      });
  for (const membership::Sum& sum : left) send(sum);
}

// What depends on the state alone is done when there is another one: it takes as long as there are
// members.
void CoordinatorHost::Impl::publish_state() {
  const membership::State& state = coordinator_.state();
  std::shared_ptr<const membership::State> known = shared_state();
  if (known->position != state.position) {
    known = std::make_shared<membership::State>(state);
    // Also kept are those of the rounds that open next, and late ones that may count: the
    // coordinator asks for these, too.
    std::erase_if(offers_, [&, next = state.next_round](const auto& offer) {
      const uint64_t round = offer.second.round;
      const bool is_next = round >= next && round <= next + overlap_;
      return !is_next && state.opening(round) == nullptr &&
             !state.overdue.contains(overdue_name(offer.second));
    });
    // Whoever is new learns at once that this coordinator says what it waits for: its silence then
    // means something.
    const auto present = std::ranges::count_if(
        state.members, [](const membership::Member& one) { return !is_gone(one.phase); });
    if (present > std::exchange(present_, present)) told_.reset();
  }
  const Lock lock(mutex_);
  state_ = std::move(known);
  leads_ = coordinator_.leads();
  waits_for_ = coordinator_.waits_for();
}

void CoordinatorHost::Impl::tell_members() {
  std::optional<std::string> text;
  {
    const Lock lock(mutex_);
    text = to_tell_;
  }
  if (!text || !coordinator_.leads()) return;
  if (text == told_ && now_ - told_at_ < options_.membership.report_s()) return;
  told_ = text;
  told_at_ = now_;
  send(membership::Waiting{*std::move(text)});
}

void CoordinatorHost::Impl::decide() {
  records_wait_ = false;
  const std::vector<Input> inputs = std::exchange(inputs_, {});
  for (const membership::Action& action : coordinator_.tick(inputs, now_)) {
    std::visit([this](const auto& one) { act(one); }, action);
  }
}

void CoordinatorHost::Impl::take(ReadRecord read) {
  if (!reading_.is_current(read)) return;
  records_wait_ = true;
  std::optional<Bytes> bytes = reading_.join(std::move(read.bytes));
  const auto record = membership::decode_record(bytes ? *bytes : Bytes());
  const bool counts =
      record && membership::is_by_coordinator(*bytes, *record, options_.founding, verify);
  if (counts) {
    cleaner_.read(*record);
    sums_.read(*record);
    records_.read(*record);
    inputs_.emplace_back(membership::RecordRead{*std::move(bytes)});
  }
  reading_.processed(read.sequence, counts ? record->sequence : 0, inputs_);
}

void CoordinatorHost::Impl::take(FetchedPayload fetched) {
  const Offer& offer = fetched.offer;
  fetching_.erase(name_of(offer));
  if (!fetched.bytes) {  // it will be offered again
    if (fetched.bytes.error().kind == FailureKind::kLostPeer) {
      send(membership::Lacking{offer.payload});
    }
    return;
  }
  // A late one is compared with those that were there when its round was closed, and waits for no
  // others.
  const membership::State& state = coordinator_.state();
  const membership::Opening* opening = state.opening(offer.round);
  const membership::OverdueTerms* late = state.overdue_terms(overdue_name(offer));
  uint64_t weight = late == nullptr ? 0 : late->weight;
  if (opening != nullptr) weight = weight_of(*opening, offer.member);
  std::vector<int> roster;
  if (opening != nullptr && options_.hooks.check) {
    for (const membership::Share& share : opening->roster) roster.push_back(share.member);
  }
  Result<std::optional<PayloadContent>> content;
  if (options_.hooks.check) {
    content = options_.hooks.check(offer, std::max<uint64_t>(weight, 1), *fetched.bytes);
  }
  if (options_.keeps && content) {
    copies_.keep({offer.round, std::make_shared<const Bytes>(*fetched.bytes)});
  }
  cleaner_.offered(offer.round, courier_of(offer.member), {offer.payload, fetched.bytes->size()});
  carry_out(filter_.take(offer, content, roster, awake_));
}

void CoordinatorHost::Impl::take(const ListedMember& listed) {
  const auto offence = strays_.take(listed, coordinator_.state());
  if (!offence) return;
  inputs_.emplace_back(*offence);
  notify(fmt::format("member {} misuses the store: {}", offence->member, offence->what));
}

void CoordinatorHost::Impl::carry_out(const std::vector<Verdict>& verdicts) {
  for (const auto& [offer, why] : verdicts) {
    if (why.empty()) {
      inputs_.emplace_back(membership::Acknowledged{offer.payload, offer.member});
    } else {
      inputs_.emplace_back(membership::PayloadRefused{offer, why});
      notify(fmt::format("member {}'s payload of round {} does not count: {}", offer.member,
                         offer.round, why));
    }
    const Lock lock(mutex_);
    if (why.empty()) {
      reports_.arrived(offer);
    } else {
      reports_.refused(offer, why);
    }
  }
}

std::string CoordinatorHost::Impl::courier_of(int member) const {
  return participant_name(coordinator_.state().members[static_cast<size_t>(member)].key);
}

void CoordinatorHost::Impl::act(const membership::Append& append) {
  records_.decides(append.expected_last);
  reading_.append(append.record);
}

void CoordinatorHost::Impl::act(const membership::AskStored& ask) {
  const auto [first, last] = offers_.equal_range(ask.payload);
  for (auto one = first; one != last; ++one) {
    const Offer& offer = one->second;
    if (!fetching_.insert(name_of(offer)).second) continue;
    courier_.get({offer.payload, offer.bytes}, {courier_of(offer.member)},
                 transport::Priority::kRound, [inbox = inbox_, offer](Result<Bytes> bytes) {
                   inbox->add(FetchedPayload{offer, std::move(bytes)});
                 });
  }
}

void CoordinatorHost::Impl::act(const membership::Refuse& refuse) {
  // What is refused is often said again and again, until its sender has read the refusal.
  if (told_refused_.size() >= kToldRefusals) told_refused_.clear();
  if (told_refused_.emplace(refuse.key, refuse.why).second) {
    notify(
        fmt::format("the participant with key {} was refused: {}", key_id(refuse.key), refuse.why));
  }
  send(refuse);
}

void CoordinatorHost::Impl::send(Message message) {
  courier_.publish(
      membership::kCoordinatorsTopic,
      membership::encode_statement(
          {options_.founding.run, signer_.key(), numbers_.next(), std::move(message)}, signer_));
}

CoordinatorHost::CoordinatorHost(transport::Courier& courier, const Signer& signer,
                                 const membership::RunPlan& plan, const HostOptions& options)
    : impl_(std::make_unique<Impl>(courier, signer, plan, options)) {}

CoordinatorHost::~CoordinatorHost() = default;

void CoordinatorHost::tick(double now) { impl_->tick(now); }

void CoordinatorHost::run(const std::atomic<bool>& stop) {
  while (!stop && !over()) {
    tick(monotonic_seconds());
    impl_->wait();
  }
}

membership::State CoordinatorHost::state() const { return impl_->state(); }
bool CoordinatorHost::leads() const { return impl_->leads(); }
std::string CoordinatorHost::waits_for() const { return impl_->waits_for(); }
void CoordinatorHost::tell(std::string waits_for) { impl_->tell(std::move(waits_for)); }
std::map<int, LatestReport> CoordinatorHost::reports() const { return impl_->reports(); }
std::vector<int> CoordinatorHost::unfinished() const { return impl_->unfinished(); }
void CoordinatorHost::protect(const Sha256& blob) { impl_->protect(blob); }
void CoordinatorHost::note_result(const PublicKey& key) { impl_->note_result(key); }
bool CoordinatorHost::over() const { return impl_->over(); }
std::optional<uint64_t> CoordinatorHost::final_digest() const { return impl_->final_digest(); }

}  // namespace thinwire::serve

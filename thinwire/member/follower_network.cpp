// What a follower sends, stores, fetches and receives: it carries out what its machine asks for.
#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "thinwire/base/cases.h"
#include "thinwire/base/clock.h"
#include "thinwire/member/follower_impl.h"
#include "thinwire/membership/messages.h"

namespace thinwire::member {
namespace {

using membership::Message;

bool is_for_coordinators(const Message& message) {
  return std::holds_alternative<membership::Announcement>(message) ||
         std::holds_alternative<membership::Overtaken>(message) ||
         std::holds_alternative<membership::Audit>(message);
}

// Others' offers are only displayed and decide nothing, so their signatures are not verified.
bool unchecked(const PublicKey&, std::span<const uint8_t>, const Signature&) { return true; }

}  // namespace

Follower::Impl::Impl(transport::Courier& courier, const Signer& signer,
                     const membership::StepPlan& plan, FollowerSettings settings)
    : courier_(courier),
      signer_(signer),
      plan_(plan),
      settings_(std::move(settings)),
      machine_(signer.key(), plan, settings_.machine),
      fetcher_(courier, machine_.retry_s(), settings_.keeper) {}

void Follower::Impl::start() {
  statements_ =
      courier_.subscribe("", membership::kCoordinatorsTopic,
                         [this](const std::string&, const Bytes& bytes) { receive(bytes); });
  statements_of_others_ = courier_.subscribe("", membership::kMembersTopic,
                                             [this](const std::string& from, const Bytes& bytes) {
                                               fetcher_.heard(from);
                                               receive_from_member(bytes);
                                             });
  read_ledger();
  sender_ = std::thread([this] { send_loop(); });
}

void Follower::Impl::stop_sending() {
  {
    const Lock lock(mutex_);
    closing_ = true;
    wake_.notify_all();
  }
  if (sender_.joinable()) sender_.join();
}

void Follower::Impl::close() {
  stop_sending();
  ledger_.reset();
  statements_.reset();
  statements_of_others_.reset();
}

// --- what the machine asks for

void Follower::Impl::settle() {
  changed_.notify_all();
  if (machine_.acts_now()) wake_.notify_all();
  std::vector<MemberAction> actions = machine_.take_actions();
  if (actions.empty()) return;
  const Unlock meanwhile(mutex_);
  for (MemberAction& action : actions) carry_out(action);
}

void Follower::Impl::carry_out(MemberAction& action) {
  std::visit(Cases{[&](const Say& one) { say(one.message); },
                   [&](const StoreOffer& one) { store(one.name, one.blob); },
                   [&](const StoreAgain& one) {
                     courier_.put(one.blob, transport::Priority::kCatchUp,
                                  [](const Result<void>&) {});
                   },
                   [&](const FetchEarly& one) { fetch_early(one.holders); },
                   [&](const Forget& one) { fetcher_.forget(one.id); },
                   [&](const ReadAgain&) { read_ledger(); }, [&](const AskEnd&) { ask_for_end(); },
                   [&](const Tell& one) { tell(one.text); }},
             action);
}

// The worker may have been quicker, or the replica ended.
void Follower::Impl::fetch_early(const Holders& holders) {
  for (const auto& [id, names] : holders) fetcher_.start(id, names, transport::Priority::kRound);
  const Lock lock(mutex_);
  for (const auto& [id, names] : holders) {
    if (!machine_.wants(id)) fetcher_.forget(id);
  }
}

void Follower::Impl::say(const Message& message) {
  const Lock lock(sending_);
  courier_.publish(
      is_for_coordinators(message) ? membership::kAnnouncementsTopic : membership::kMembersTopic,
      membership::encode_statement(
          {settings_.machine.founding.run, signer_.key(), numbers_.next(), message}, signer_));
}

void Follower::Impl::store(OfferName name, const std::shared_ptr<const Bytes>& blob) {
  const std::weak_ptr<Impl> weak = weak_from_this();
  courier_.put(blob, transport::Priority::kRound, [weak, name](const Result<void>& stored) {
    const auto self = weak.lock();
    if (!self) return;
    const auto refused = stored ? std::nullopt : std::optional(stored.error().kind);
    self->with_machine(
        [&](MemberMachine& machine) { machine.stored(name, refused, monotonic_seconds()); });
  });
}

void Follower::Impl::store_snapshot(int64_t steps, Bytes content) {
  const auto blob = std::make_shared<const Bytes>(std::move(content));
  const transport::BlobId id = transport::blob_id(*blob);
  const auto ready =
      with_machine([&](MemberMachine& machine) { return machine.snapshot_ready(steps, id); });
  if (!ready) return;
  const std::weak_ptr<Impl> weak = weak_from_this();
  courier_.put(blob, transport::Priority::kBulk, [weak, ready](const Result<void>& stored) {
    const auto self = weak.lock();
    if (!self || !stored) return;  // the coordinator asks again
    self->with_machine([&](MemberMachine& machine) { machine.snapshot_stored(*ready); });
  });
}

void Follower::Impl::send_loop() {
  const Lock lock(mutex_);
  while (!closing_) {
    wake_.wait_for(mutex_, std::chrono::duration<double>(machine_.idle_s(monotonic_seconds())),
                   [this]() REQUIRES(mutex_) { return machine_.acts_now() || closing_; });
    if (closing_) return;
    machine_.tick(monotonic_seconds(), fetcher_.lacking());
    settle();
  }
}

// The network delivers one participant's messages in order, so once it has stored something sent
// later, it has received these.
void Follower::Impl::announce_leaving(double seconds) {
  stop_sending();
  const auto messages = with_machine([](MemberMachine& machine) { return machine.farewell(); });
  if (messages.empty()) return;
  for (const Message& message : messages) say(message);
  const auto stored = std::make_shared<std::promise<void>>();
  std::future<void> done = stored->get_future();
  courier_.put(std::make_shared<const Bytes>(), transport::Priority::kRound,
               [stored](const Result<void>&) { stored->set_value(); });
  if (!courier_.connected()) return;
  done.wait_for(std::chrono::duration<double>(seconds));
}

// --- what arrives

void Follower::Impl::read_ledger() {
  ledger_.reset();
  with_machine([](MemberMachine& machine) { machine.begin_reading(); });
  ledger_ = courier_.read(membership::kLedgerStream, 1, [this](uint64_t place, Bytes message) {
    with_machine([&](MemberMachine& machine) {
      machine.read(place, std::move(message), monotonic_seconds());
    });
  });
  ask_for_end();
}

void Follower::Impl::ask_for_end() {
  const std::weak_ptr<Impl> weak = weak_from_this();
  courier_.last(membership::kLedgerStream, [weak](const Result<uint64_t>& last) {
    const auto self = weak.lock();
    if (!self) return;
    self->with_machine([&](MemberMachine& machine) {
      machine.stream_ends(last ? std::optional(*last) : std::nullopt);
    });
  });
}

void Follower::Impl::receive(const Bytes& bytes) {
  const auto statement =
      membership::decode_statement(bytes, settings_.machine.founding.run, verify);
  if (!statement) return;
  const auto* overtaken = std::get_if<membership::Overtaken>(&statement->message);
  const bool lacks = std::holds_alternative<membership::Lacking>(statement->message);
  if (!lacks && overtaken == nullptr && !membership::is_from_coordinator(statement->message))
    return;
  const auto& coordinators = settings_.machine.founding.coordinators;
  if (!std::ranges::binary_search(coordinators, statement->author)) return;
  if (overtaken != nullptr) return go_on_from(*overtaken);
  with_machine([&](MemberMachine& machine) {
    machine.receive(*statement, bytes, monotonic_seconds(), unix_seconds());
  });
}

// Offers and requests for lost payloads, from other members.
void Follower::Impl::receive_from_member(const Bytes& bytes) {
  const uint64_t run = settings_.machine.founding.run;
  const auto statement = membership::decode_statement(bytes, run, unchecked);
  if (!statement) return;
  if (const auto* offer = std::get_if<membership::Offer>(&statement->message)) {
    const Lock lock(mutex_);
    return machine_.note_offer(*offer);
  }
  const auto* lacking = std::get_if<membership::Lacking>(&statement->message);
  if (lacking == nullptr) return;
  const bool has_it = look([&](const MemberMachine& machine) {
    return machine.can_restore(statement->author, lacking->payload);
  });
  if (!has_it || !membership::decode_statement(bytes, run, verify)) return;
  with_machine(
      [&](MemberMachine& machine) { machine.restore(lacking->payload, monotonic_seconds()); });
}

// The process before this one had a clock that was ahead.
void Follower::Impl::go_on_from(const membership::Overtaken& overtaken) {
  const auto later =
      membership::decode_statement(overtaken.later, settings_.machine.founding.run, verify);
  if (!later || later->author != signer_.key()) return;
  {
    const Lock lock(sending_);
    if (!numbers_.go_on_from(later->number)) return;
  }
  with_machine([](MemberMachine& machine) { machine.act_soon(); });
  tell(
      "the coordinator dropped what this member said: it said something before when its clock was "
      "ahead. It goes on from there");
}

}  // namespace thinwire::member

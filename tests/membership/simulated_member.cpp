#include "simulated_member.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "fake_signer.h"
#include "thinwire/base/cases.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::membership {
namespace {

constexpr double kFetchAgainSeconds = 0.5;
constexpr double kStoreTimeoutSeconds = 5;
constexpr double kTickSeconds = 0.01;
constexpr double kFolderSeconds = 5;  // until the user has deleted a folder
constexpr size_t kPayloadBytes = 100;
constexpr uint64_t kSnapshotBytes = 500;

// The hash of numbers and hashes, in order.
class Fold {
 public:
  Fold& operator<<(uint64_t number) {
    ByteWriter(bytes_).put(number);
    return *this;
  }
  Fold& operator<<(const Sha256& hash) {
    ByteWriter(bytes_).put_bytes(hash.bytes);
    return *this;
  }
  Sha256 hash() const { return sha256(bytes_); }

 private:
  Bytes bytes_;
};

}  // namespace

SimulatedMember::SimulatedMember(Stage& stage, int number, double seconds_per_row)
    : stage_(stage),
      number_(number),
      key_(fake_key(100 + static_cast<uint64_t>(number))),
      seconds_per_row_(seconds_per_row) {}

// --- its process

void SimulatedMember::start(bool disk) {
  if (!disk) {
    checkpoint_.reset();
    blobs_.clear();
  }
  member::MachineSettings settings{.founding = stage_.founding, .timeout_s = stage_.timeout_s};
  settings.late =
      stage_.late_counts ? config::LateContributions::kCount : config::LateContributions::kDrop;
  settings.watch = stage_.watch;
  settings.verify = fake_verify;
  if (checkpoint_) {
    settings.checkpoint = checkpoint_->place;
    settings.records = checkpoint_->records;
  }
  machine_ = std::make_unique<member::MemberMachine>(key_, *stage_.plan, std::move(settings));
  drop_replica();
  fetching_.clear();
  ++process_;
  leaving_ = ticks_now_ = false;
  running = true;
  stage_.network.update_connections();
  tick_after(0);
}

void SimulatedMember::stop() {
  ++process_;
  ++tick_;
  ticks_now_ = false;
  ++replicas_;
  running = false;
  stage_.network.update_connections();
}

void SimulatedMember::leave() {
  leaving_ = true;
  for (const Message& message : machine_->farewell()) stage_.say(*this, key_, message);
  stage_.network.after(1, [this, process = process_] {
    if (process == process_) stop();
  });
}

void SimulatedMember::flip_a_bit() {
  if (!replica_) return;
  replica_->weights.bytes[0] ^= 1;
  replica_->flipped = true;
}

void SimulatedMember::tick_after(double seconds) {
  if (ticks_now_) return;
  ticks_now_ = seconds == 0;
  stage_.network.after(seconds, [this, tick = ++tick_] {
    if (tick != tick_ || leaving_) return;
    ticks_now_ = false;
    std::vector<transport::BlobId> lacking;
    for (const Sha256& blob : fetching_) {
      if (!stage_.network.blobs().contains(blob)) lacking.push_back({blob, kPayloadBytes});
    }
    machine_->tick(stage_.network.now(), lacking);
    settle();
    if (tick == tick_) {
      tick_after(std::max(kTickSeconds, machine_->idle_s(stage_.network.now())));
    }
  });
}

int64_t SimulatedMember::steps_of(uint64_t rounds) const {
  if (rounds == 0) return 0;
  const Opening last = stage_.plan->round(rounds - 1);
  return static_cast<int64_t>(last.first_step + last.steps.size());
}

void SimulatedMember::settle() {
  for (const member::MemberAction& action : machine_->take_actions()) carry_out(action);
  if (machine_->acts_now() && !leaving_) tick_after(0);
}

void SimulatedMember::carry_out(const member::MemberAction& action) {
  Network& network = stage_.network;
  std::visit(Cases{[&](const member::Say& one) { stage_.say(*this, key_, one.message); },
                   [&](const member::StoreOffer& one) { store(one); },
                   [&](const member::StoreAgain& one) {
                     const Sha256 name = sha256(*one.blob);
                     network.to_store(*this, [this, name] { stage_.network.put(name); });
                   },
                   [&](const member::FetchEarly& one) {
                     for (const auto& [id, names] : one.holders) fetch(id.name, [] {});
                   },
                   [&](const member::Forget&) {},
                   [&](const member::Tell& one) { stage_.on_told(number_, one.text); },
                   [&](const member::ReadAgain&) {
                     if (replica_) stage_.on_discarded(number_);
                     machine_->begin_reading();
                     network.read_from(*this, 0);
                     carry_out(member::AskEnd{});
                   },
                   [&](const member::AskEnd&) {
                     network.to_store(*this, [this] {
                       stage_.network.to_host(*this, [this, last = stage_.network.ledger.last()] {
                         machine_->stream_ends(last);
                         settle();
                         proceed();
                       });
                     });
                   }},
             action);
}

void SimulatedMember::store(const member::StoreOffer& offer) {
  const Sha256 payload = sha256(*offer.blob);
  blobs_.insert(payload);
  const auto answered = std::make_shared<bool>(false);
  const auto answer = [this, answered, name = offer.name,
                       process = process_](std::optional<FailureKind> refused) {
    if (std::exchange(*answered, true) || process != process_) return;
    machine_->stored(name, refused, stage_.network.now());
    settle();
  };
  const bool sent = stage_.network.to_store(*this, [this, payload, answer] {
    const bool stored = stage_.network.put(payload);
    stage_.network.to_host(*this, [answer, stored] {
      answer(stored ? std::nullopt : std::optional(FailureKind::kRefused));
    });
  });
  stage_.network.after(sent ? kStoreTimeoutSeconds : kFetchAgainSeconds,
                       [answer] { answer(FailureKind::kDeadline); });
}

// --- what it hears

void SimulatedMember::on_connected(uint64_t last) {
  // Reads the last record that both have again, to see whether the store's ledger is this one.
  const uint64_t both = std::min(last, machine_->view().state().position.sequence);
  stage_.network.read_from(*this, both > 0 ? both - 1 : 0);
  machine_->stream_ends(last);
  machine_->act_soon();
  fetching_.clear();
  starting_.reset();
  give_back();
  settle();
  proceed();
}

// Stores what the store has lost again, if it has space.
void SimulatedMember::give_back() {
  stage_.network.to_store(*this, [this] {
    bool all = true;
    for (const Sha256& blob : blobs_) all = stage_.network.put(blob) && all;
    if (!all) stage_.network.after(kFetchAgainSeconds, [this] { give_back(); });
  });
}

void SimulatedMember::on_record(const Bytes& bytes) {
  machine_->read(decode_record(bytes)->sequence, bytes, stage_.network.now());
  settle();
  proceed();
}

void SimulatedMember::hear(const Statement& statement) {
  const double now = stage_.network.now();
  if (std::ranges::binary_search(stage_.founding.coordinators, statement.author)) {
    const Bytes number(as_bytes(std::span(&statement.number, 1)).begin(),
                       as_bytes(std::span(&statement.number, 1)).end());
    machine_->receive(statement, number, now, now);
  } else if (const auto* lacking = std::get_if<Lacking>(&statement.message);
             lacking != nullptr && machine_->can_restore(statement.author, lacking->payload)) {
    machine_->restore(lacking->payload, now);
  }
  settle();
  proceed();
}

// Fetches until it has it, as long as its process and connection last.
void SimulatedMember::fetch(const Sha256& blob, const std::function<void()>& fetched) {
  if (blobs_.contains(blob)) return fetched();
  stage_.network.to_store(*this, [this, blob, fetched] {
    if (!stage_.network.blobs().contains(blob)) return;
    stage_.network.to_host(*this, [this, blob, fetched] {
      blobs_.insert(blob);
      fetching_.erase(blob);
      fetched();
    });
  });
  stage_.network.after(kFetchAgainSeconds, [this, blob, fetched, process = process_] {
    if (process == process_ && !blobs_.contains(blob)) fetch(blob, fetched);
  });
}

// --- its replica

void SimulatedMember::proceed() {
  if (!running) return;
  if (machine_->refused()) return give_up();
  if (replica_ && machine_->starts_over()) {
    stage_.on_told(number_, "starts over: " + *machine_->starts_over());
    machine_->end();
    drop_replica();
  }
  if (!replica_) find_start();
  if (replica_) work();
  settle();
}

// It may not take part. Where that is only because of what its folder holds, its user deletes that.
void SimulatedMember::give_up() {
  stop();
  const Member* const own = machine_->own();
  if (own != nullptr && own->phase == Phase::kExcluded) return;
  stage_.network.after(kFolderSeconds, [this, process = process_] {
    if (process == process_) start(false);
  });
}

void SimulatedMember::drop_replica() {
  ++replicas_;
  replica_.reset();
  starting_.reset();
  computing_ = computed_ = false;
  evaluated_ = 0;
  awaited_.reset();
  in_flight_.clear();
  offered_.clear();
}

void SimulatedMember::find_start() {
  if (starting_ && !machine_->is_obsolete(*starting_)) return;
  starting_ = machine_->start_state();
  if (!starting_) return;
  if (starting_->checkpoint) {
    const member::StartState start = *starting_;
    in_flight_ = checkpoint_->in_flight;
    return begin(start, checkpoint_->replica);
  }
  fetch(starting_->content.name, [this, content = starting_->content.name] {
    if (!starting_ || starting_->content.name != content || replica_) return;
    if (machine_->is_obsolete(*starting_)) {
      starting_.reset();
    } else {
      begin(*starting_, stage_.snapshots.at(content));
      settle();
    }
    proceed();
  });
}

void SimulatedMember::begin(const member::StartState& start, const Replica& replica) {
  starting_.reset();
  if (!machine_->begin(start, steps_of(replica.rounds))) return;
  stage_.on_told(number_,
                 fmt::format("begins with {} after {} rounds",
                             start.checkpoint ? "its checkpoint" : "a snapshot", replica.rounds));
  ++replicas_;
  replica_ = replica;
  const auto again = std::exchange(in_flight_, {});
  for (const auto& [name, payload] : again) {
    if (machine_->offer(name.first, name.second, transport::blob_id(*payload), payload, {}))
      in_flight_[name] = payload;
    offered_.insert(name.first);
  }
}

// Round after round: computes it, and applies what has been committed of the rounds before, as far
// as they may not be in flight any longer.
void SimulatedMember::work() {
  const uint64_t rounds = stage_.plan->rounds();
  while (!computing_ && (is_within_step() || evaluate()) && replica_->rounds < rounds &&
         (is_within_step() || !is_ended())) {
    if (!computed_ && !compute()) return;
    const uint64_t done = replica_->rounds + 1;
    const uint64_t in_flight = done == rounds ? 0 : std::min(stage_.plan->overlap(), done);
    if (!apply_until(done - in_flight)) return;
    complete_round();
  }
}

bool SimulatedMember::is_within_step() const {
  const uint64_t next = replica_->rounds;
  return next < stage_.plan->rounds() && stage_.plan->round(next).steps.empty();
}

bool SimulatedMember::is_decided() const {
  const auto completed = static_cast<uint64_t>(steps_of(replica_->rounds));
  return !stage_.plan->decides_after(completed) ||
         machine_->view().state().evaluated.step >= completed;
}

bool SimulatedMember::is_ended() const {
  const auto completed = static_cast<uint64_t>(steps_of(replica_->rounds));
  const auto& evaluations = machine_->view().evaluations();
  const auto decided = std::ranges::find(evaluations, completed, &Evaluation::step);
  return decided != evaluations.end() && decided->ends;
}

// The loss is some number that follows from the weights. Rounds in flight in a snapshot that the
// replica began with are offered before, as strategies do that begin with one.
bool SimulatedMember::evaluate() {
  if (is_decided()) return true;
  for (uint64_t round = replica_->applied; round < replica_->rounds; ++round) {
    if (!offered_.contains(round)) offer_nothing(round);
  }
  const int64_t completed = steps_of(replica_->rounds);
  if (std::exchange(evaluated_, completed) != static_cast<uint64_t>(completed)) {
    machine_->evaluated(completed, stage_.watch, replica_->weights.bytes[0], 10);
  }
  return false;
}

// False: it waits for the round to open, or takes a while.
bool SimulatedMember::compute() {
  const uint64_t round = replica_->rounds;
  const Opening* const opening = machine_->hand_out(round);
  if (opening == nullptr) {
    if (is_within_step() && awaited_ != round) machine_->await(awaited_ = round);
    return false;
  }
  const auto self = id();
  const auto rows = self ? static_cast<double>(weight_of(*opening, *self)) : 0;
  if (rows == 0 || machine_->replayed().has(round)) return computed_ = true;
  offered_.insert(round);
  const double seconds = rows * seconds_per_row_ * (0.9 + 0.2 * stage_.network.uniform());
  computing_ = true;
  stage_.network.after(seconds, [this, round, opening = *opening, seconds, replica = replicas_] {
    if (replica != replicas_) return;
    computing_ = false;
    computed_ = true;
    offer(round, opening, seconds);
    settle();
    proceed();
  });
  return false;
}

void SimulatedMember::offer(uint64_t round, const Opening& opening, double seconds) {
  for (const PlannedOperation& operation : opening.operations) {
    const Sha256 hash = (Fold() << static_cast<uint64_t>(number_) << process_ << round
                                << opening.epoch << operation.fragment << replica_->weights)
                            .hash();
    Bytes payload(kPayloadBytes);
    std::ranges::copy(hash.bytes, payload.begin());
    auto blob = std::make_shared<const Bytes>(std::move(payload));
    const transport::BlobId id = transport::blob_id(*blob);
    if (machine_->offer(round, operation.fragment, id, blob, {.seconds = seconds})) {
      in_flight_[{round, operation.fragment}] = std::move(blob);
    }
  }
}

// A replica that began with a snapshot has nothing of its own for rounds that were in flight in it.
// It says so, since others wait for everybody in the roster.
void SimulatedMember::offer_nothing(uint64_t round) {
  const Opening* const opening = machine_->hand_out(round);
  const auto self = id();
  if (opening == nullptr || !self || weight_of(*opening, *self) == 0) return;
  offered_.insert(round);
  const auto nothing = std::make_shared<const Bytes>();
  for (const PlannedOperation& operation : opening->operations) {
    (void)machine_->offer(round, operation.fragment, transport::blob_id({}), nothing, {});
  }
}

bool SimulatedMember::apply_until(uint64_t rounds) {
  while (replica_->applied < rounds) {
    const uint64_t round = replica_->applied;
    const Closing* const closing = machine_->closing(round);
    if (closing == nullptr) {
      if (!offered_.contains(round)) offer_nothing(round);
      if (awaited_ != round) machine_->await(awaited_ = round);
      return false;
    }
    machine_->await(awaited_ = std::nullopt);
    if (!has_payloads(*closing)) return false;
    apply(*closing);
  }
  return true;
}

bool SimulatedMember::has_payloads(const Closing& closing) {
  bool all = true;
  for (const Commit& commit : closing.commits) {
    for (const Contribution& one : commit.contributions) {
      if (blobs_.contains(one.payload)) continue;
      all = false;
      if (!fetching_.insert(one.payload).second) continue;
      fetch(one.payload, [this] { proceed(); });
    }
  }
  return all;
}

void SimulatedMember::apply(const Closing& closing) {
  Fold fold;
  fold << replica_->weights << closing.round;
  for (const Commit& commit : closing.commits) {
    fold << commit.operation.fragment << std::bit_cast<uint32_t>(commit.scale);
    for (const Contribution& one : commit.contributions) {
      fold << static_cast<uint64_t>(one.member) << one.round << one.payload << one.weight;
    }
  }
  replica_->weights = fold.hash();
  replica_->applied = closing.round + 1;
  replica_->position = machine_->view().position(machine_->view().round(closing.round)->closed_at);
  std::erase_if(in_flight_, [&](const auto& one) { return one.first.first <= closing.round; });
  stage_.on_applied(number_, *replica_);
}

void SimulatedMember::complete_round() {
  computed_ = false;
  ++replica_->rounds;
  if (is_within_step()) return;
  uint64_t digest = 0;
  std::memcpy(&digest, replica_->weights.bytes.data(), sizeof(digest));
  machine_->completed(steps_of(replica_->rounds));
  machine_->digest(steps_of(replica_->rounds), digest);
  if (machine_->wants_snapshot(steps_of(replica_->rounds))) make_snapshot();
  if (stage_.network.one_in(3)) save();
}

void SimulatedMember::save() {
  const auto place = machine_->place(steps_of(replica_->rounds));
  if (!place) return;
  checkpoint_ = Checkpoint{*replica_, *place, machine_->last_records(), in_flight_};
}

void SimulatedMember::make_snapshot() {
  const Sha256 content = (Fold() << replica_->weights << replica_->rounds).hash();
  stage_.snapshots[content] = *replica_;
  blobs_.insert(content);
  const auto ready =
      machine_->snapshot_ready(steps_of(replica_->rounds), {content, kSnapshotBytes});
  if (!ready) return;
  stage_.network.to_store(*this, [this, content, ready, process = process_] {
    if (!stage_.network.put(content)) return;
    stage_.network.to_host(*this, [this, ready, process] {
      if (process != process_) return;
      machine_->snapshot_stored(*ready);
      settle();
    });
  });
}

}  // namespace thinwire::membership

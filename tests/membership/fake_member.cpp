#include "fake_member.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "fake_signer.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::membership {
namespace {

constexpr double kFetchAgainSeconds = 0.5;
constexpr uint64_t kPayloadBytes = 100;
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

FakeMember::FakeMember(Stage& stage, int number, double seconds_per_row)
    : stage_(stage),
      number_(number),
      key_(fake_key(100 + static_cast<uint64_t>(number))),
      seconds_per_row_(seconds_per_row) {}

void FakeMember::start(bool disk) {
  if (!disk) {
    state_ = {};
    records_.clear();
    decoded_.clear();
    hashes_.clear();
    replica_.reset();
    blobs_.clear();
  }
  if (!replica_) begun_with_ = 0;
  computed_.clear();
  computing_.clear();
  busy_until_ = 0;
  unfinished_ = 0;
  fetching_.clear();
  ++process_;
  running = true;
  stage_.network.update_connections();
  stage_.send(*this,
              JoinRequest{key_, replica_ ? std::optional(replica_->position) : std::nullopt, 0});
  keep_reporting(process_);
}

void FakeMember::stop() {
  ++process_;
  running = false;
  stage_.network.update_connections();
}

void FakeMember::leave() {
  if (const auto self = id()) stage_.send(*this, LeaveNotice{*self});
  stage_.network.after(1, [this, process = process_] {
    if (process == process_) stop();
  });
}

void FakeMember::flip_a_bit() {
  if (!replica_) return;
  replica_->weights.bytes[0] ^= 1;
  replica_->flipped = true;
}

void FakeMember::on_connected(uint64_t last) {
  // Reads the last record that both have again, to see whether the store's ledger is this one.
  const uint64_t both = std::min(last, state_.position.sequence);
  stage_.network.read_from(*this, both > 0 ? both - 1 : 0);
  fetching_.clear();
  give_back();
  report();
  follow_own_phase();
  proceed();
}

// Stores what the store has lost again, if it has space.
void FakeMember::give_back() {
  stage_.network.to_store(*this, [this] {
    bool all = true;
    for (const Sha256& blob : blobs_) all = stage_.network.put(blob) && all;
    if (!all) stage_.network.after(kFetchAgainSeconds, [this] { give_back(); });
  });
}

void FakeMember::on_record(const Bytes& bytes) {
  const Record record = *decode_record(bytes);
  const Sha256 hash = record_hash(bytes);
  if (record.sequence <= hashes_.size() && hashes_[record.sequence - 1] == hash) return;
  if (record.sequence > hashes_.size() + 1) return;  // of an earlier reading
  if (record.sequence <= hashes_.size()) discard_from(record.sequence);
  // If it follows another record than the last one here, the two part further back.
  if (!state_.apply(record, hash)) return stage_.network.read_from(*this, 0);
  records_.push_back(bytes);
  decoded_.push_back(record);
  hashes_.push_back(hash);
  follow_own_phase();
  proceed();
}

// The store's ledger is another one than the one known here, from record `fork` on at the latest:
// goes back to what both have in common, and gives up what came of the records that do not count.
void FakeMember::discard_from(uint64_t fork) {
  if (replica_ && replica_->position.sequence >= fork) {
    stage_.on_discarded(number_);
    replica_.reset();
    begun_with_ = 0;
  }
  if (begun_with_ >= fork) begun_with_ = 0;
  records_.resize(fork - 1);
  decoded_.resize(fork - 1);
  hashes_.resize(fork - 1);
  state_ = {};
  for (size_t i = 0; i < decoded_.size(); ++i) (void)state_.apply(decoded_[i], hashes_[i]);
}

void FakeMember::proceed() {
  apply_records();
  train();
}

void FakeMember::report() {
  const auto position = replica_ ? std::optional(replica_->position) : std::nullopt;
  const auto self = id();
  if (!self || is_gone(state_.members[static_cast<size_t>(*self)].phase)) {
    stage_.send(*this, JoinRequest{key_, position, 0});
    return;
  }
  stage_.send(*this, Report{*self, position, replica_ ? replica_->digest : std::nullopt});
  for (const auto& [key, payload] : computed_) {
    if (state_.opening(key.round) != nullptr ||
        state_.overdue.contains({*self, key.round, key.fragment})) {
      offer(key);
    }
  }
}

void FakeMember::keep_reporting(uint64_t process) {
  stage_.network.after(stage_.options.report_s(), [this, process] {
    if (process != process_) return;
    report();
    keep_reporting(process);
  });
}

// Begins with a snapshot where the ledger says so.
void FakeMember::follow_own_phase() {
  const auto self = id();
  if (!self) return;
  const Member& own = state_.members[static_cast<size_t>(*self)];
  if (own.phase != Phase::kCatchingUp || !own.snapshot || own.phase_since <= begun_with_) return;
  if (replica_ && replica_->position.sequence >= own.phase_since) return;
  const auto held = state_.snapshots.find(*own.snapshot);
  if (held == state_.snapshots.end()) return;  // of long ago; a later record says otherwise
  begun_with_ = own.phase_since;
  replica_.reset();
  const Sha256 content = held->second.content;
  fetch(content, [this, content, phase_since = own.phase_since] {
    if (begun_with_ != phase_since || replica_) return;
    replica_ = stage_.snapshots.at(content);
    proceed();
  });
}

// Fetches until it has it, as long as its process and connection last.
void FakeMember::fetch(const Sha256& blob, const std::function<void()>& fetched) {
  if (blobs_.contains(blob)) return fetched();
  const auto again = [this, blob, fetched, process = process_] {
    stage_.network.after(kFetchAgainSeconds, [this, blob, fetched, process] {
      if (process == process_) fetch(blob, fetched);
    });
  };
  const bool asked = stage_.network.to_store(*this, [this, blob, fetched] {
    if (!stage_.network.blobs().contains(blob)) return;
    stage_.network.to_host(*this, [this, blob, fetched] {
      blobs_.insert(blob);
      fetched();
    });
  });
  (void)asked;
  again();
}

// Between rounds, as a worker does.
void FakeMember::apply_records() {
  while (unfinished_ == 0 && replica_ && replica_->position.sequence < decoded_.size()) {
    const uint64_t index = replica_->position.sequence;
    const Record& record = decoded_[index];
    if (record.closing) {
      if (!has_payloads(*record.closing)) return;
      apply_closing(*record.closing);
    }
    replica_->position = {index + 1, hashes_[index]};
    stage_.on_applied(number_, *replica_);
    if (record.closing && id()) report();
  }
}

bool FakeMember::has_payloads(const Closing& closing) {
  bool all = true;
  for (const Commit& commit : closing.commits) {
    for (const Contribution& one : commit.contributions) {
      if (blobs_.contains(one.payload)) continue;
      all = false;
      if (!fetching_.insert(one.payload).second) continue;
      fetch(one.payload, [this, payload = one.payload] {
        if (fetching_.erase(payload) > 0) proceed();
      });
    }
  }
  return all;
}

void FakeMember::apply_closing(const Closing& closing) {
  Fold fold;
  fold << replica_->weights << closing.round;
  for (const Commit& commit : closing.commits) {
    fold << commit.operation.fragment << std::bit_cast<uint32_t>(commit.scale);
    for (const Contribution& one : commit.contributions) {
      fold << static_cast<uint64_t>(one.member) << one.round << one.payload << one.weight;
    }
  }
  replica_->weights = fold.hash();
  uint64_t digest = 0;
  std::memcpy(&digest, replica_->weights.bytes.data(), sizeof(digest));
  replica_->digest = AgreedDigest{closing.round, digest};
}

void FakeMember::train() {
  const auto self = id();
  if (!self || !replica_) return;
  const uint64_t applied = replica_->digest ? replica_->digest->round + 1 : 0;
  for (const Opening& opening : state_.open) {
    if (applied + stage_.overlap < opening.round || weight_of(opening, *self) == 0) continue;
    compute(opening);
  }
}

void FakeMember::compute(const Opening& opening) {
  const auto rows = static_cast<double>(weight_of(opening, *id()));
  const double seconds = rows * seconds_per_row_ * (0.9 + 0.2 * stage_.network.rng().uniform());
  const double now = stage_.network.now();
  const double done = std::max(now, busy_until_) + seconds;
  for (const PlannedOperation& operation : opening.operations) {
    const OperationKey key{state_.founding->run, opening.epoch, opening.round, operation.fragment};
    if (!computing_.try_emplace(key, seconds).second) continue;
    busy_until_ = done;
    ++unfinished_;
    stage_.network.after(done - now, [this, key, process = process_] {
      if (process == process_) finish(key);
    });
  }
}

void FakeMember::finish(const OperationKey& key) {
  --unfinished_;
  if (!replica_) {
    computing_.erase(key);  // the next replica computes it
    return;
  }
  const Sha256 payload = (Fold() << static_cast<uint64_t>(number_) << process_ << key.round
                                 << key.epoch << key.fragment << replica_->weights)
                             .hash();
  computed_[key] = payload;
  blobs_.insert(payload);
  offer(key);
  proceed();
}

void FakeMember::offer(const OperationKey& key) {
  const auto self = id();
  if (!self) return;
  const Sha256 payload = computed_.at(key);
  stage_.network.to_store(*this, [this, payload] { stage_.network.put(payload); });
  stage_.send(*this, Offer{*self, key.round, key.epoch, key.fragment, payload, kPayloadBytes,
                           computing_.at(key)});
}

void FakeMember::on_ask_records(uint64_t first) {
  const auto self = id();
  if (!self || !replica_ || first == 0) return;
  Supply supply{*self, {}};
  for (uint64_t at = first; at <= replica_->position.sequence; ++at) {
    supply.messages.push_back(records_[at - 1]);
  }
  if (!supply.messages.empty()) stage_.send(*this, supply);
}

void FakeMember::on_ask_snapshot() {
  const auto self = id();
  if (!self || !replica_ || !replica_->digest) return;
  const Sha256 content = (Fold() << replica_->weights << replica_->position.sequence).hash();
  stage_.snapshots[content] = *replica_;
  blobs_.insert(content);
  const SnapshotReady ready{{*self, replica_->position.sequence, content, kSnapshotBytes},
                            *replica_->digest,
                            replica_->position.hash};
  stage_.network.to_store(*this, [this, content, ready] {
    if (stage_.network.put(content)) stage_.send(*this, ready);
  });
}

}  // namespace thinwire::membership

// A run without a model, for bench/scale: a coordinator with a nats-server of its own, and members
// that store and offer payloads of random bytes and follow the ledger. They do not fetch each
// other's payloads or receive each other's statements, which real members do.
//
//   light_run coordinator FOLDER MEMBERS ROUNDS   prints the server's process and port once members
//                                                 may come, then a line for each round: its
//                                                 seconds, and the bytes of the record that closed
//                                                 it
//   light_run members FOLDER PORT FIRST COUNT     takes part until the run is over
//   light_run virtual MEMBERS ROUNDS              the coordinator alone, in virtual time, with a
//                                                 store that answers at once; prints the same
//                                                 lines, with seconds of the processor
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/file.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/rng.h"
#include "thinwire/membership/coordinator.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/nats_server.h"

namespace thinwire {
namespace {

constexpr uint64_t kRun = 7;
constexpr const char* kRunName = "light";
constexpr double kPatience = 120;  // seconds
constexpr double kTimeout = 1200;  // sync.timeout_s: members report every 30 s
constexpr size_t kPayloadBytes = 256;
constexpr std::chrono::milliseconds kPause(200);

Seed seed_of(uint32_t participant) {
  Seed seed{};
  for (size_t i = 0; i < 4; ++i) seed[i] = static_cast<uint8_t>(participant >> (8 * i));
  seed[31] = 1;
  return seed;
}

// Participant 0 is the coordinator, the others are members.
std::unique_ptr<Signer> signer_of(uint32_t participant) {
  return make_signer(seed_of(participant));
}

// Rounds of one step and one operation, in which each member has one row.
class LightPlan final : public membership::RunPlan {
 public:
  LightPlan(uint64_t members, uint64_t rounds) : members_(members), rounds_(rounds) {}
  uint64_t workers() const override { return members_; }
  uint64_t batch() const override { return members_; }
  uint64_t overlap() const override { return 0; }
  uint64_t rounds() const override { return rounds_; }
  membership::Opening round(uint64_t number) const override {
    membership::Opening opening;
    opening.round = opening.first_step = number;
    opening.last = number + 1 == rounds_;
    opening.steps = {{0.5f, 0.5f}};
    opening.operations = {{0, kPayloadBytes}};
    return opening;
  }

 private:
  const uint64_t members_, rounds_;
};

std::unique_ptr<transport::Courier> connect(int port, const std::string& authority,
                                            uint32_t participant) {
  const transport::NatsOptions options{
      .target = {{"127.0.0.1:" + std::to_string(port)}, authority, seed_of(participant), kPatience},
      .run = kRunName,
      .self = participant_name(signer_of(participant)->key())};
  if (participant == 0) {
    const auto stores = create_nats_stores(options, {membership::kLedgerStream}, {});
    if (!stores) throw Error(stores.error().message);
  }
  auto courier = connect_nats_courier(options);
  if (!courier) throw Error(courier.error().message);
  return *std::move(courier);
}

// Calls may come from any thread.
class LightMember {
 public:
  LightMember(int port, const std::string& authority, uint32_t participant)
      : signer_(signer_of(participant)),
        random_(participant, 1),
        courier_(connect(port, authority, participant)) {
    ledger_ = courier_->read(membership::kLedgerStream, 1,
                             [this](uint64_t, Bytes message) { take(std::move(message)); });
  }

  bool finished() const { return finished_; }
  // What the coordinator may not have received.
  void repeat() {
    const std::lock_guard lock(mutex_);
    if (!id_) return send(membership::JoinRequest{signer_->key(), std::nullopt, 0});
    report();
    if (offer_) send(*offer_);
  }

 private:
  void take(Bytes message) {
    const std::optional<Bytes> bytes = joiner_.take(std::move(message));
    const auto record = membership::decode_record(bytes ? *bytes : Bytes());
    if (!record) return;
    const std::lock_guard lock(mutex_);
    position_ = {record->sequence, membership::record_hash(*bytes)};
    for (const membership::Change& change : record->changes) {
      const auto* admission = std::get_if<membership::Admission>(&change);
      if (admission != nullptr && admission->key == signer_->key()) id_ = admission->member;
    }
    if (!id_) return;
    if (record->closing) {
      digest_ = {record->closing->round, record->closing->round};
      offer_.reset();
      finished_ = finished_ || record->closing->round == last_;
    }
    for (const membership::Opening& opening : record->openings) contribute(opening);
    if (record->closing || !active_) report();
  }

  void contribute(const membership::Opening& opening) {
    if (opening.last) last_ = opening.round;
    active_ = share_of(opening, *id_) != nullptr;
    if (!active_) return;
    auto payload = std::make_shared<Bytes>(kPayloadBytes);
    for (uint8_t& byte : *payload) byte = static_cast<uint8_t>(random_.bits());
    const transport::BlobId id = transport::blob_id(*payload);
    const membership::Offer offer{*id_, opening.round, opening.epoch, 0, id.name, id.bytes, {}};
    courier_->put(payload, transport::Priority::kRound, [this, offer](const Result<void>& stored) {
      const std::lock_guard lock(mutex_);
      if (!stored) throw Error(stored.error().message);
      offer_ = offer;
      send(offer);
    });
  }

  void report() { send(membership::Report{*id_, position_, digest_}); }
  void send(membership::Message message) {
    courier_->publish(membership::kMembersTopic,
                      membership::encode_statement(
                          {kRun, signer_->key(), numbers_.next(), std::move(message)}, *signer_));
  }

  const std::unique_ptr<Signer> signer_;
  std::mutex mutex_;
  Rng random_;
  membership::StatementNumbers numbers_;
  membership::RecordJoiner joiner_;
  std::optional<int> id_;
  std::optional<membership::Offer> offer_;  // of the open round
  std::optional<membership::AgreedDigest> digest_;
  membership::Position position_;
  bool active_ = false;
  std::optional<uint64_t> last_;  // the run's last round
  std::atomic<bool> finished_ = false;
  std::unique_ptr<transport::Courier> courier_;
  std::unique_ptr<transport::Subscription> ledger_;  // destroyed first
};

void take_part(const fs::path& folder, int port, uint32_t first, uint32_t count) {
  const std::string authority = read_text_file(folder / "authority.pem");
  std::vector<std::unique_ptr<LightMember>> members;
  for (uint32_t i = first; i < first + count; ++i) {
    members.push_back(std::make_unique<LightMember>(port, authority, i));
  }
  membership::Options times;
  times.timeout_s = kTimeout;
  double repeated = 0;
  while (!std::ranges::all_of(members, [](const auto& one) { return one->finished(); })) {
    if (const double now = monotonic_seconds(); now - repeated > times.report_s()) {
      repeated = now;
      for (const auto& one : members) one->repeat();
    }
    std::this_thread::sleep_for(kPause);
  }
  for (const auto& one : members) one->repeat();
  std::this_thread::sleep_for(10 * kPause);  // for the last reports to be sent
}

void show(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// How long each round was open.
class Rounds {
 public:
  void note(const membership::Record& record) {
    const double now = monotonic_seconds();
    if (record.closing) {
      show(fmt::format("round {:.4f} {}", now - opened_.at(record.closing->round),
                       encode_record(record, *signer_).size()));
    }
    for (const membership::Opening& opening : record.openings) opened_[opening.round] = now;
  }

 private:
  const std::unique_ptr<Signer> signer_ = signer_of(0);
  std::map<uint64_t, double> opened_;
};

void coordinate(const fs::path& folder, uint32_t members, uint64_t rounds) {
  std::vector<transport::NatsUser> users;
  for (uint32_t i = 0; i <= members; ++i) {
    const PublicKey key = signer_of(i)->key();
    users.push_back({participant_name(key), key,
                     i == 0 ? transport::NatsRole::kCoordinator : transport::NatsRole::kMember});
  }
  transport::NatsServer server({.host = "127.0.0.1",
                                .folder = folder,
                                .run = kRunName,
                                .streams = {membership::kLedgerStream},
                                .limits = {.connections = static_cast<int>(members) + 100}},
                               users, kPatience);
  write_file(folder / "authority.pem", server.authority());
  const auto signer = signer_of(0);
  const auto courier = connect(server.port(), server.authority(), 0);
  const LightPlan plan(members, rounds);
  Rounds shown;
  serve::HostOptions options;
  options.membership.timeout_s = kTimeout;
  options.membership.snapshot_every = 0;
  options.founding = {kRun, {}, {}, kPayloadBytes, {signer->key()}};
  options.hooks.record = [&](const membership::Record& record, bool) { shown.note(record); };
  serve::CoordinatorHost host(*courier, *signer, plan, options);
  host.tick(monotonic_seconds());
  show(fmt::format("port {}", server.port()));
  const std::atomic<bool> stop = false;
  host.run(stop);
}

// A coordinator without a host.
class VirtualRun {
 public:
  VirtualRun(uint32_t members, uint64_t rounds)
      : members_(static_cast<int>(members)),
        plan_(members, rounds),
        coordinator_(plan_, times(), *signer_, verify, {kRun, {}, {}, 0, {signer_->key()}}, false) {
    deliver({membership::StoreConnected{0}});
    std::vector<membership::Input> inputs;
    for (uint32_t i = 1; i <= members; ++i) {
      PublicKey key;
      std::copy_n(seed_of(i).begin(), key.bytes.size(), key.bytes.begin());
      inputs.emplace_back(membership::JoinRequest{key, std::nullopt, 0});
    }
    deliver(std::move(inputs));
    report();
  }

  void close(uint64_t round) {
    const double before = processor_seconds();
    std::vector<membership::Input> inputs;
    for (int member = 0; member < members_; ++member) {
      const transport::BlobId id =
          transport::blob_id(as_bytes(fmt::format("{} {}", member, round)));
      inputs.emplace_back(membership::Offer{
          member, round, coordinator_.state().epoch, 0, id.name, kPayloadBytes, {}});
      inputs.emplace_back(membership::Acknowledged{id.name, member});
      if (inputs.size() >= 2 * kAtOnce) deliver(std::exchange(inputs, {}));
    }
    deliver(std::move(inputs));
    report();
    if (coordinator_.state().opening(round) != nullptr) throw Error("a round does not close");
    show(fmt::format("round {:.4f} {}", processor_seconds() - before, largest_));
  }

 private:
  static constexpr size_t kAtOnce = 100;  // offers that arrive between two ticks

  static membership::Options times() {
    membership::Options options;
    options.timeout_s = kTimeout;
    options.snapshot_every = 0;
    return options;
  }
  static double processor_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  void report() {
    std::vector<membership::Input> inputs;
    for (int member = 0; member < members_; ++member) {
      inputs.emplace_back(membership::Report{member, coordinator_.state().position, std::nullopt});
    }
    deliver(std::move(inputs));
  }
  void deliver(std::vector<membership::Input> inputs) {
    now_ += 0.001;
    while (!inputs.empty()) {
      const std::vector<membership::Action> actions = coordinator_.tick(inputs, now_);
      inputs.clear();
      for (const membership::Action& action : actions) {
        const auto* append = std::get_if<membership::Append>(&action);
        if (append == nullptr) continue;
        largest_ = append->record.size();
        inputs.emplace_back(membership::RecordRead{append->record});
      }
    }
  }

  const int members_;
  const LightPlan plan_;
  const std::unique_ptr<Signer> signer_ = signer_of(0);
  membership::Coordinator coordinator_;
  double now_ = 0;
  size_t largest_ = 0;  // bytes of the last record
};

void simulate(uint32_t members, uint64_t rounds) {
  VirtualRun run(members, rounds);
  for (uint64_t round = 0; round < rounds; ++round) run.close(round);
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 4 && arguments[0] == "coordinator") {
    coordinate(arguments[1], static_cast<uint32_t>(std::stoul(arguments[2])),
               std::stoul(arguments[3]));
  } else if (arguments.size() == 5 && arguments[0] == "members") {
    take_part(arguments[1], std::stoi(arguments[2]),
              static_cast<uint32_t>(std::stoul(arguments[3])),
              static_cast<uint32_t>(std::stoul(arguments[4])));
  } else if (arguments.size() == 3 && arguments[0] == "virtual") {
    simulate(static_cast<uint32_t>(std::stoul(arguments[1])), std::stoul(arguments[2]));
  } else {
    throw Error("its arguments are at the top of bench/light_run.cpp");
  }
  return 0;
}

}  // namespace
}  // namespace thinwire

int main(int count, char** arguments) {
  try {
    return thinwire::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fputs(fmt::format("light_run: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}

// What crosses the lines of a run of many members, for bench/scale: a coordinator's host (serve/)
// and members without a model in virtual time, in a network that counts. Members announce, store
// and offer payloads, report, read the ledger, and fetch what each commit lists: all payloads of
// the others, or the sum that the coordinator forms.
//
//   lines_run MEMBERS ROUNDS SITES server|sites payloads|sums
//
// Members are divided among sites; `server`: there is one server, beside the coordinator, and the
// members of a site share a line to it; `sites`: each site has a server of its own, and the
// coordinator is at the first (docs/operations.md). Prints, for each line and direction,
//   LINE up|down PAYLOADS SUMS BYTES
// the number of payloads and of sums, and the bytes of everything else, of a round; for the busiest
// of lines that are alike. "site+relay" is the line of a site with a relay.
//
// How it counts. A statement goes to each server once that somebody on it listens to, and a record
// to each reader. A relay has what its site's members have stored or fetched before.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/couriers/courier_memory.h"
#include "thinwire/base/nkey.h"
#include "thinwire/codec/wire.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/sync/committed_sum.h"

namespace thinwire {
namespace {

constexpr uint64_t kRun = 7;
constexpr size_t kValues = 64;
constexpr size_t kPayloadBytes = kValues * sizeof(float);
constexpr double kTimeout = 1200;  // sync.timeout_s: members report every 30 s
constexpr double kTick = 0.5;      // s

std::unique_ptr<Signer> signer_of(uint32_t participant) {
  Seed seed{};
  for (size_t i = 0; i < 4; ++i) seed[i] = static_cast<uint8_t>(participant >> (8 * i));
  seed[31] = 1;
  return make_signer(seed);
}

// In one direction of a line.
struct Count {
  uint64_t payloads = 0, sums = 0, bytes = 0;
  auto operator<=>(const Count&) const = default;
};
struct Line {
  Count up, down;
};

// The lines of a run, by what happens at the ends of connections. Participant 0 is the coordinator.
class Lines {
 public:
  Lines(size_t members, size_t sites, bool servers)
      : servers_(servers), members_(members + 1), sites_(sites), relayed_(sites), seen_(sites) {}

  size_t site(size_t who) const { return who == 0 ? 0 : (who - 1) % sites_.size(); }

  void stored(size_t who, const Sha256& blob, bool sum) {
    seen_[site(who)].insert(blob);
    cross(who, &Line::up, blob_count(sum));
  }
  void fetched(size_t who, size_t holder, const Sha256& blob, bool sum) {
    const Count count = blob_count(sum);
    add(members_[who].down, count);
    if (!servers_ && who == 0) return;  // it is beside the server
    const bool first = seen_[site(who)].insert(blob).second;
    const bool far = !servers_ || site(who) != site(holder);
    if (!far) return;
    pass(site(holder), site(who), count, sites_);
    if (first) pass(site(holder), site(who), count, relayed_);
  }
  // To those at `sites`, each of whose members but the author receives it.
  void said(size_t who, size_t bytes, bool to_members) {
    const Count count{0, 0, bytes};
    cross(who, &Line::up, count);
    for (size_t to = 0; servers_ && to < sites_.size(); ++to) {
      if (to == site(who) || (!to_members && to != 0)) continue;
      pass(site(who), to, count, sites_);
      pass(site(who), to, count, relayed_);
    }
  }
  void heard(size_t who, size_t bytes) {
    const Count count{0, 0, bytes};
    if (!servers_) return cross(who, &Line::down, count);
    add(members_[who].down, count);
  }
  void read(size_t who, size_t bytes) {
    const Count count{0, 0, bytes};
    if (!servers_) return cross(who, &Line::down, count);
    add(members_[who].down, count);
    if (site(who) == 0) return;
    pass(0, site(who), count, sites_);
    pass(0, site(who), count, relayed_);
  }

  // By name.
  std::vector<std::pair<std::string, Line>> all() const {
    std::vector<std::pair<std::string, Line>> lines;
    if (!servers_) {
      Line server;
      for (size_t who = 1; who < members_.size(); ++who) {
        add(server.up, members_[who].down);
        add(server.down, members_[who].up);
      }
      lines.emplace_back("server", server);
    } else {
      lines.emplace_back("coordinator's_site", sites_.front());
      lines.emplace_back("coordinator's_site+relays", relayed_.front());
    }
    lines.emplace_back("site", busiest(sites_, servers_));
    lines.emplace_back("site+relay", busiest(relayed_, servers_));
    lines.emplace_back("member", busiest(members_, true));
    return lines;
  }

 private:
  static Count blob_count(bool sum) { return {sum ? 0u : 1u, sum ? 1u : 0u, 0}; }
  static void add(Count& to, const Count& more) {
    to.payloads += more.payloads;
    to.sums += more.sums;
    to.bytes += more.bytes;
  }
  // Of a participant's own connection, and with one server of its site's line.
  void cross(size_t who, Count Line::*direction, const Count& count) {
    add(members_[who].*direction, count);
    if (servers_ || who == 0) return;
    add(sites_[site(who)].*direction, count);
    add(relayed_[site(who)].*direction, count);
  }
  // With one server it comes from there.
  void pass(size_t from, size_t to, const Count& count, std::vector<Line>& lines) const {
    if (servers_) add(lines[from].up, count);
    add(lines[to].down, count);
  }
  static Line busiest(const std::vector<Line>& lines, bool but_first) {
    Line most;
    for (size_t i = but_first && lines.size() > 1 ? 1 : 0; i < lines.size(); ++i) {
      most.up = std::max(most.up, lines[i].up);
      most.down = std::max(most.down, lines[i].down);
    }
    return most;
  }

  const bool servers_;
  std::vector<Line> members_;  // and the coordinator
  std::vector<Line> sites_;
  std::vector<Line> relayed_;           // lines of sites with relays
  std::vector<std::set<Sha256>> seen_;  // by site
};

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

// A courier that counts; participants are known by their names.
class CountingCourier final : public transport::Courier {
 public:
  using Numbers = std::map<std::string, size_t>;
  CountingCourier(std::unique_ptr<Courier> courier, Lines& lines, const Numbers& numbers)
      : courier_(std::move(courier)),
        lines_(lines),
        numbers_(numbers),
        who_(numbers.at(courier_->self())) {}

  const std::string& self() const override { return courier_->self(); }
  bool connected() const override { return courier_->connected(); }
  transport::BlobId put(std::shared_ptr<const Bytes> blob, transport::Priority priority,
                        Done done) override {
    const transport::BlobId id = courier_->put(std::move(blob), priority, std::move(done));
    lines_.stored(who_, id.name, who_ == 0);
    return id;
  }
  void get_part(const Sha256& blob, const transport::BlobId& part, std::vector<std::string> holders,
                transport::Priority priority, Got got) override {
    const size_t holder = numbers_.at(holders.front());
    const auto counted = [this, blob, holder, got = std::move(got)](Result<Bytes> bytes) {
      if (bytes) lines_.fetched(who_, holder, blob, holder == 0);
      got(std::move(bytes));
    };
    courier_->get_part(blob, part, std::move(holders), priority, counted);
  }
  void drop(const Sha256& blob, const std::string& holder, Done done) override {
    courier_->drop(blob, holder, std::move(done));
  }
  void count(Counted counted) override { courier_->count(std::move(counted)); }
  void list(const std::string& holder, Listed listed) override {
    courier_->list(holder, std::move(listed));
  }
  void publish(const std::string& topic, Bytes statement) override {
    lines_.said(who_, statement.size(), topic != membership::kAnnouncementsTopic);
    courier_->publish(topic, std::move(statement));
  }
  std::unique_ptr<transport::Subscription> subscribe(const std::string& from,
                                                     const std::string& topic,
                                                     OnStatement on_statement) override {
    return courier_->subscribe(
        from, topic,
        [this, on_statement = std::move(on_statement)](const std::string& author, Bytes statement) {
          lines_.heard(who_, statement.size());
          on_statement(author, std::move(statement));
        });
  }
  void append(const std::string& stream, uint64_t expected_last, Bytes record,
              Appended appended) override {
    courier_->append(stream, expected_last, std::move(record), std::move(appended));
  }
  void last(const std::string& stream, Appended answered) override {
    courier_->last(stream, std::move(answered));
  }
  std::unique_ptr<transport::Subscription> read(const std::string& stream, uint64_t first,
                                                Take take) override {
    return courier_->read(stream, first,
                          [this, take = std::move(take)](uint64_t sequence, Bytes record) {
                            lines_.read(who_, record.size());
                            take(sequence, std::move(record));
                          });
  }

 private:
  const std::unique_ptr<Courier> courier_;
  Lines& lines_;
  const Numbers& numbers_;
  const size_t who_;
};

// Belongs to the thread that runs the network.
class Member {
 public:
  Member(uint32_t participant, std::unique_ptr<transport::Courier> courier, bool sums)
      : number_(participant),
        signer_(signer_of(participant)),
        sums_(sums),
        courier_(std::move(courier)) {
    heard_ = courier_->subscribe("", membership::kMembersTopic, [](const auto&, const Bytes&) {});
    told_ = courier_->subscribe("", membership::kCoordinatorsTopic,
                                [this](const std::string& from, const Bytes& bytes) {
                                  if (sums_) hear(from, bytes);
                                });
    ledger_ = courier_->read(membership::kLedgerStream, 1,
                             [this](uint64_t, Bytes message) { take(std::move(message)); });
    say(membership::JoinRequest{signer_->key(), std::nullopt, 0});
  }

  // Rounds whose payloads or sums it has.
  uint64_t applied() const { return applied_; }
  void report() {
    if (id_) say(membership::Report{*id_, position_, std::nullopt});
  }

 private:
  void take(Bytes message) {
    const std::optional<Bytes> bytes = joiner_.take(std::move(message));
    const auto record = membership::decode_record(bytes ? *bytes : Bytes());
    if (!record) return;
    position_ = {record->sequence, membership::record_hash(*bytes)};
    for (const membership::Change& change : record->changes) {
      const auto* admission = std::get_if<membership::Admission>(&change);
      if (admission == nullptr) continue;
      names_[admission->member] = participant_name(admission->key);
      if (admission->key == signer_->key()) id_ = admission->member;
    }
    if (!id_) return;
    if (record->closing) {
      for (const Commit& commit : record->closing->commits) fetch(commit);
    }
    for (const membership::Opening& opening : record->openings) opened_ = opening;
    if (awaited_ == 0) report();
    contribute();
  }

  // A round's step begins with the weights of the round before.
  void contribute() {
    if (awaited_ > 0) return;
    if (const auto opening = std::exchange(opened_, std::nullopt)) contribute(*opening);
  }

  void contribute(const membership::Opening& opening) {
    if (share_of(opening, *id_) == nullptr) return;
    const std::vector<float> values(
        kValues, static_cast<float>(number_) + static_cast<float>(opening.round) / 1024);
    auto payload = std::make_shared<Bytes>(kPayloadBytes);
    codec::wire_codec(WireType::kF32).encode(values, *payload);
    const transport::BlobId id = transport::blob_id(*payload);
    const membership::Offer offer{*id_, opening.round, opening.epoch, 0, id.name, id.bytes, {}};
    say(membership::Announcement{offer});
    courier_->put(payload, transport::Priority::kRound, [this, offer](const Result<void>& stored) {
      if (!stored) throw Error(stored.error().message);
      say(offer);
    });
  }

  void fetch(const Commit& commit) {
    awaited_ = sums_ ? 1 : sync::summed(commit).size() - 1;
    if (sums_) return;
    for (const Contribution& one : sync::summed(commit)) {
      if (one.member == *id_) continue;
      get({one.payload, one.bytes}, names_.at(one.member));
    }
  }
  void hear(const std::string& from, const Bytes& bytes) {
    const auto statement = membership::decode_statement(bytes, kRun, verify);
    const auto* const sum = statement ? std::get_if<membership::Sum>(&statement->message) : nullptr;
    if (sum != nullptr && sum->bytes > 0) get({sum->payload, sum->bytes}, from);
  }
  void get(const transport::BlobId& id, const std::string& holder) {
    courier_->get(id, {holder}, transport::Priority::kRound, [this](const Result<Bytes>& got) {
      if (!got) throw Error(got.error().message);
      if (--awaited_ > 0) return;
      ++applied_;
      report();
      contribute();
    });
  }

  void say(membership::Message message) {
    const bool announces = std::holds_alternative<membership::Announcement>(message);
    courier_->publish(announces ? membership::kAnnouncementsTopic : membership::kMembersTopic,
                      membership::encode_statement(
                          {kRun, signer_->key(), numbers_.next(), std::move(message)}, *signer_));
  }

  const uint32_t number_;
  const std::unique_ptr<Signer> signer_;
  const bool sums_;
  membership::StatementNumbers numbers_;
  membership::RecordJoiner joiner_;
  membership::Position position_;
  std::optional<int> id_;
  std::map<int, std::string> names_;
  std::optional<membership::Opening> opened_;  // that it has not contributed to
  size_t awaited_ = 0;                         // blobs of the last round
  uint64_t applied_ = 0;
  std::unique_ptr<transport::Courier> courier_;
  std::unique_ptr<transport::Subscription> heard_, told_, ledger_;
};

// All that crossed in a run of so many rounds.
Lines simulate(uint32_t count, uint64_t rounds, size_t sites, bool servers, bool sums) {
  Lines lines(count, sites, servers);
  CountingCourier::Numbers numbers;
  for (uint32_t i = 0; i <= count; ++i) numbers[participant_name(signer_of(i)->key())] = i;
  transport::MemoryNetwork network{{.timeout_s = kTimeout}};
  const auto connect = [&](uint32_t participant) {
    return std::make_unique<CountingCourier>(
        network.connect(participant_name(signer_of(participant)->key())), lines, numbers);
  };
  const auto signer = signer_of(0);
  const auto courier = connect(0);
  const LightPlan plan(count, rounds);
  serve::HostOptions options;
  options.membership.timeout_s = kTimeout;
  options.membership.snapshot_every = 0;
  options.founding = {kRun, {}, {}, kPayloadBytes, {signer->key()}};
  if (sums) {
    options.sums = sync::SumRule{config::Sums::kCoordinator, &codec::wire_codec(WireType::kF32)};
  }
  options.keeps = servers;
  serve::CoordinatorHost host(*courier, *signer, plan, options);
  double now = 0;
  const auto advance = [&] {
    now += kTick;
    network.run_until(now);
    host.tick(now);
  };
  advance();
  std::vector<std::unique_ptr<Member>> members;
  for (uint32_t i = 1; i <= count; ++i) {
    members.push_back(std::make_unique<Member>(i, connect(i), sums));
  }
  const auto ended = [&] {
    return std::ranges::all_of(members, [&](const auto& one) { return one->applied() >= rounds; });
  };
  while (!ended()) advance();
  return lines;
}

void show(const std::string& name, const char* direction, const Count& first, const Count& all,
          uint64_t rounds) {
  const auto mean = [&](uint64_t before, uint64_t after) {
    return static_cast<double>(after - before) / static_cast<double>(rounds);
  };
  std::fputs(fmt::format("{} {} {:.1f} {:.1f} {:.0f}\n", name, direction,
                         mean(first.payloads, all.payloads), mean(first.sums, all.sums),
                         mean(first.bytes, all.bytes))
                 .c_str(),
             stdout);
}

// Without what joining takes, which is also in a run of one round.
void compare(uint32_t count, uint64_t rounds, size_t sites, bool servers, bool sums) {
  const auto first = simulate(count, 1, sites, servers, sums).all();
  const auto all = simulate(count, rounds + 1, sites, servers, sums).all();
  for (size_t i = 0; i < all.size(); ++i) {
    show(all[i].first, "up", first[i].second.up, all[i].second.up, rounds);
    show(all[i].first, "down", first[i].second.down, all[i].second.down, rounds);
  }
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5) throw Error("its arguments are at the top of bench/lines_run.cpp");
  compare(static_cast<uint32_t>(std::stoul(arguments[0])), std::stoul(arguments[1]),
          std::stoul(arguments[2]), arguments[3] == "sites", arguments[4] == "sums");
  return 0;
}

}  // namespace
}  // namespace thinwire

int main(int count, char** arguments) {
  try {
    return thinwire::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    std::fputs(fmt::format("lines_run: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}

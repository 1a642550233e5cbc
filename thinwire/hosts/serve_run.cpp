#include "thinwire/hosts/serve_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/plain_message.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/endpoint.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/member_results.h"
#include "thinwire/hosts/request_handler.h"
#include "thinwire/hosts/run_news.h"
#include "thinwire/hosts/run_status.h"
#include "thinwire/hosts/run_watch.h"
#include "thinwire/hosts/secrets.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/serve/payload_check.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/join_token.h"
#include "thinwire/transport/nats/nats_server.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr double kLookSeconds = 0.2;       // between looks at the server, the keys and `stop`
constexpr double kExpiryLookSeconds = 20;  // between looks for users that have expired
constexpr std::chrono::milliseconds kAfterwards(20);
constexpr double kResultsSeconds = 20;  // after the end, for members to report their results
constexpr double kDaySeconds = 24 * 3600;

int64_t unix_now() { return static_cast<int64_t>(unix_seconds()); }

// Everything here belongs to the thread that constructs it, except the host's own thread.
class Service {
 public:
  Service(ServedRun run, const ServeOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  ServeResult serve();

 private:
  std::vector<transport::NatsUser> users() const;
  transport::NatsOptions nats_options() const;
  void issue_token();
  void start_server();
  void connect();
  void store(std::shared_ptr<const Bytes> blob, const char* what);
  void publish();
  void start_host();
  void coordinate();
  void note_end(const membership::State& state);
  void write_ready_file() const;
  void look_after_server();
  void look_after_keys();
  std::string enrol(const PublicKey& token, const PublicKey& key);
  bool stopped() const { return options_.stop != nullptr && *options_.stop; }
  bool awaits_results();
  ServeResult finish();

  const ServeOptions& options_;
  const Endpoint listen_;
  const ServedRun run_;
  const fs::path folder_;
  const std::unique_ptr<Signer> signer_;
  const std::string name_;  // of the coordinator, and of the run
  Seed token_{};
  uint64_t ring_stamp_ = 0;
  std::unique_ptr<transport::NatsServer> server_;
  double users_looked_at_ = 0;
  std::unique_ptr<transport::Courier> courier_;
  const membership::RecipePlan plan_;
  RunNews news_;
  std::optional<RunWatch> watch_;
  std::unique_ptr<serve::CoordinatorHost> host_;
  std::unique_ptr<RequestHandler> requests_;
  MemberResults results_;
  std::optional<double> quiet_since_;  // since when nobody is there who has yet to report
  std::atomic<bool> host_stop_ = false;
  std::map<int, PublicKey> finishers_;  // of the host's thread until over_
  std::atomic<bool> over_ = false;
  std::string host_failure_;  // of the host's thread until host_failed_
  std::atomic<bool> host_failed_ = false;
  std::thread host_thread_;
};

Service::Service(ServedRun run, const ServeOptions& options)
    : options_(options),
      listen_(parse_endpoint("--listen", options.listen)),
      run_(std::move(run)),
      folder_(run_.recipe.run.dir),
      signer_(make_signer(run_.seed)),
      name_(transport::participant_name(signer_->key())),
      plan_(run_.recipe, method::tensors_of(run_.recipe)),
      news_(run_.recipe),
      results_(run_.recipe) {
  page::LiveRun* const page =
      options_.watch ? options_.watch(run_.recipe, plan_.rounds()) : nullptr;
  if (page != nullptr) watch_.emplace(run_.recipe, *page);
  issue_token();
  start_server();
  connect();
  publish();
  start_host();
}

Service::~Service() {
  host_stop_ = true;
  if (host_thread_.joinable()) host_thread_.join();
}

// The token of the ready file admits as many members as come.
void Service::issue_token() {
  token_ = load_or_make_seed(folder_ / kServerFolder / kTokenFile);
  const PublicKey key = make_signer(token_)->key();
  update_key_ring(folder_, [&](KeyRing& ring) {
    const bool known = std::ranges::find(ring.tokens, key, &IssuedToken::key) != ring.tokens.end();
    if (known) return;
    const int64_t now = unix_now();
    const int64_t expires =
        options_.token_days > 0 ? now + static_cast<int64_t>(options_.token_days * kDaySeconds) : 0;
    ring.tokens.push_back({.key = key, .role = Role::kMember, .issued = now, .expires = expires});
  });
}

std::vector<transport::NatsUser> Service::users() const {
  std::vector<transport::NatsUser> users = load_key_ring(folder_).users();
  users.push_back({name_, signer_->key(), transport::NatsRole::kCoordinator});
  return users;
}

void Service::start_server() {
  ring_stamp_ = key_ring_stamp(folder_);
  const transport::NatsSettings settings{.host = listen_.host,
                                         .port = listen_.port,
                                         .folder = folder_ / kServerFolder,
                                         .run = name_,
                                         .streams = {serve::kLedgerStream, kEntryStream}};
  server_ = std::make_unique<transport::NatsServer>(settings, users(), kPatienceSeconds);
}

transport::NatsOptions Service::nats_options() const {
  return {.target = {{near_address(listen_, server_->port())},
                     server_->authority(),
                     run_.seed,
                     kPatienceSeconds},
          .run = name_,
          .self = name_,
          .max_blob_bytes = kMaxBlobBytes};
}

void Service::connect() {
  const auto made =
      transport::create_nats_stores(nats_options(), {serve::kLedgerStream, kEntryStream}, {});
  if (!made) throw Error("cannot set up the server: " + made.error().message);
  auto courier = transport::connect_nats_courier(nats_options());
  if (!courier) throw Error("cannot reach the server: " + courier.error().message);
  courier_ = std::move(*courier);
}

void Service::store(std::shared_ptr<const Bytes> blob, const char* what) {
  Waiting<void> stored;
  courier_->put(std::move(blob), transport::Priority::kBulk, stored.setter());
  const Result<void> result = stored.wait(options_.stop);
  if (!result) throw Error(fmt::format("cannot store {}: {}", what, result.error().message));
}

// At every start: what is there already is not stored twice.
void Service::publish() {
  store(run_.weights, "the initial weights");
  const fs::path vocabulary = run_.files.at(run_.description.vocabulary.blob.name);
  const MappedFile text(vocabulary);
  store(std::make_shared<const Bytes>(text.bytes().begin(), text.bytes().end()), "the vocabulary");
  const auto description = std::make_shared<const Bytes>(encode_description(run_.description));
  store(description, "the run's description");
  Waiting<uint64_t> appended;
  courier_->append(kEntryStream, 0, encode_entry(transport::blob_id(*description), *signer_),
                   appended.setter());
  const Result<uint64_t> result = appended.wait(options_.stop);
  if (!result && result.error().kind != FailureKind::kStaleRound) {
    throw Error("cannot publish the run's description: " + result.error().message);
  }
}

void Service::start_host() {
  membership::Options membership;
  membership.timeout_s = run_.recipe.sync.timeout_s;
  membership.shares = run_.recipe.sync.shares;
  serve::HostOptions options;
  options.membership = membership;
  options.founding = run_.description.founding;
  options.hooks.progress = [this](const membership::State& state) {
    news_.tell(state);
    note_end(state);
  };
  options.hooks.check = serve::payload_check(run_.recipe, plan_, run_.description.founding.run);
  options.hooks.say = [this](const std::string& text) {
    events::print_message(text);
    if (watch_) watch_->say(text);
  };
  options.hooks.record = [this](const membership::Record& record, bool earlier) {
    const double now = monotonic_seconds();
    news_.record(record, earlier, now);
    if (watch_) watch_->record(record, earlier, now);
  };
  host_ = std::make_unique<serve::CoordinatorHost>(*courier_, *signer_, plan_, std::move(options));
  requests_ = std::make_unique<RequestHandler>(
      *courier_, *signer_, run_.files,
      RequestHandler::Duties{
          [this](const PublicKey& token, const PublicKey& key) { return enrol(token, key); },
          [this] {
            return print_status(
                status_of(run_.recipe, *host_, plan_.rounds(), monotonic_seconds()));
          },
          [this] { return run_.description.recipe; },
          [this](const PublicKey& member, const events::Summary& summary) {
            results_.add(member, summary);
          }});
  host_thread_ = std::thread([this] { coordinate(); });
}

// After the end it continues to listen, to know which members are still present.
void Service::coordinate() {
  try {
    host_->run(host_stop_);
    over_ = true;
    while (!host_stop_) {
      host_->tick(monotonic_seconds());
      std::this_thread::sleep_for(kAfterwards);
    }
  } catch (const std::exception& error) {
    host_failure_ = plain_message(error);
    host_failed_ = true;
  }
}

// The members that are present at the end report their results.
void Service::note_end(const membership::State& state) {
  if (!state.finished || over_) return;
  finishers_.clear();
  for (size_t id = 0; id < state.members.size(); ++id) {
    if (is_gone(state.members[id].phase)) continue;
    finishers_.emplace(static_cast<int>(id), state.members[id].key);
  }
}

void Service::write_ready_file() const {
  const std::string address =
      options_.address.empty() ? far_address(listen_, server_->port()) : options_.address;
  const std::string token =
      transport::encode_join_token({address, name_, server_->authority(), token_});
  write_file(folder_ / kServerFolder / kAddressFile, address);
  if (!options_.ready_file.empty()) {
    const fs::path ca = fs::absolute(folder_ / kServerFolder / kAuthorityFile);
    const nlohmann::json ready = {{"address", address}, {"token", token}, {"ca", ca.string()}};
    write_file(options_.ready_file, print_json(ready, {.indent = 2}) + "\n");
  }
  events::print_message(
      fmt::format("{} is served at {}; members join with", run_.recipe.run.name, address));
  events::print_message(fmt::format("  thinwire join {} --token {}", address, token));
}

// Couriers reconnect by themselves once it is back.
void Service::look_after_server() {
  if (server_->alive()) return;
  constexpr const char* kEnded = "nats-server has ended; it is started again";
  events::print_message(kEnded);
  if (watch_) watch_->say(kEnded);
  server_->revive();
}

void Service::look_after_keys() {
  const uint64_t stamp = key_ring_stamp(folder_);
  if (stamp != ring_stamp_) {
    ring_stamp_ = stamp;
    server_->set_users(users());
  }
  if (monotonic_seconds() - users_looked_at_ < kExpiryLookSeconds) return;
  users_looked_at_ = monotonic_seconds();
  server_->expire_users();
}

std::string Service::enrol(const PublicKey& token, const PublicKey& key) {
  std::string why_not;
  update_key_ring(folder_, [&](KeyRing& ring) { why_not = ring.enrol(token, key, unix_now()); });
  if (why_not.empty()) look_after_keys();
  return why_not;
}

ServeResult Service::serve() {
  if (options_.on_start) options_.on_start();
  write_ready_file();
  while (!stopped()) {
    requests_->attend(kLookSeconds);
    if (watch_) watch_->look(*host_, monotonic_seconds());
    look_after_server();
    look_after_keys();
    if (host_failed_) throw Error(host_failure_);
    if (over_ && !awaits_results()) return finish();
  }
  const membership::State state = host_->state();
  return {
      ServeOutcome::kStopped, state.open.empty() ? state.next_round : state.open.front().round, {}};
}

bool Service::awaits_results() {
  const double now = monotonic_seconds();
  if (!quiet_since_) quiet_since_ = now;
  const auto news = host_->news();
  const double silence_s = run_.recipe.sync.timeout_s / 4;
  bool all = true;
  for (const auto& [id, key] : finishers_) {
    if (results_.has(key)) continue;
    all = false;
    const auto heard = news.find(id);
    const bool there =
        heard != news.end() && !heard->second.left && now - heard->second.heard_at < silence_s;
    if (there) quiet_since_ = now;
  }
  const bool known = results_.digest() || host_->final_digest();
  return (!all || !known) && now - *quiet_since_ < kResultsSeconds;
}

ServeResult Service::finish() {
  const auto digest = results_.digest() ? results_.digest() : host_->final_digest();
  if (!digest) {
    throw Error(
        "the run is complete, but no member that has its weights is there; start one, and "
        "repeat the command");
  }
  const events::Summary summary = results_.summarise(*digest);
  events::write_summary(folder_ / "summary.json", summary);
  return {ServeOutcome::kFinished, plan_.rounds(), summary};
}

}  // namespace

ServeResult serve_run(config::Recipe recipe, const ServeOptions& options) {
  (void)parse_endpoint("--listen", options.listen);
  if (!options.address.empty()) (void)parse_endpoint("--address", options.address);
  const fs::path summary = fs::path(recipe.run.dir) / "summary.json";
  ServedRun run = open_served_run(std::move(recipe));
  if (fs::exists(summary)) {
    return {ServeOutcome::kAlreadyFinished, 0, events::read_summary(summary)};
  }
  return Service(std::move(run), options).serve();
}

}  // namespace thinwire::hosts

#include "thinwire/hosts/serve_run.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/signature.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/connection_limit.h"
#include "thinwire/hosts/contributions.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/final_weights.h"
#include "thinwire/hosts/request_handler.h"
#include "thinwire/hosts/run_display.h"
#include "thinwire/hosts/run_end.h"
#include "thinwire/hosts/run_servers.h"
#include "thinwire/hosts/run_status.h"
#include "thinwire/hosts/run_watch.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/hosts/store_need.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/serve/payload_filter.h"

namespace thinwire::hosts {
namespace {

constexpr double kPollSeconds = 0.2;    // between checks of the servers, the keys and `stop`
constexpr double kProbeSeconds = 2;     // within which a leading coordinator answers
constexpr double kQuorumSeconds = 10;   // within which a cluster has elected a leader
constexpr double kWaitingSeconds = 2;   // between checks of what the run waits for
constexpr double kFarewellSeconds = 5;  // within which an excluded member reads that it is
constexpr double kPartSeconds = 300;    // for a part of the final weights, however often it fails
constexpr std::chrono::milliseconds kPause(20);
// In the server's folder: the run is finished, but was stopped before all had its final weights.
constexpr const char* kLackingFile = "lacking";

fs::path summary_file(const fs::path& run_folder) { return run_folder / "summary.json"; }

// The seed of the sketches by which payloads are compared: secret, and the same whenever this
// coordinator is started.
uint64_t sketch_seed(const Seed& coordinator) {
  Bytes secret;
  ByteWriter writer(secret);
  writer.put_bytes(coordinator);
  writer.put_bytes(as_bytes("sketches of payloads"));
  const Sha256 hash = sha256(secret);
  return ByteReader(hash.bytes).get<uint64_t>();
}

std::unique_ptr<RunServers> servers_of(const ServeOptions& options) {
  const events::MessageSink& message = options.display.message;
  if (options.cluster) return use_cluster(*options.cluster, message);
  if (!options.mailbox.empty()) return use_mailbox(options.mailbox);
  return use_own_server(options.listen, options.address, message);
}

// Everything here belongs to the thread that constructs it, except the host's own thread.
class Service {
 public:
  Service(ServedRun run, std::unique_ptr<RunServers> servers, const ServeOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  ServeResult serve();

 private:
  void connect();
  bool another_leads();
  void start_host();
  void start_requests();
  void coordinate();
  // Tells it on the terminal and on the page.
  void announce(const std::string& message);
  void tell_ready() const;
  void maintain_servers();
  void await_shared_keys();
  void check_keys();
  void tell_of_speeds();
  void keep_folder();
  void shut_out_excluded();
  void shut_out_crowding();
  void report_leader();
  void report_waiting();
  // Unless there may be others, which share their keys with it.
  bool leads() const { return shared_keys_ == nullptr || host_->leads(); }
  std::string refusal(const Request& request) const;
  Result<WeightsAnswer> answer_weights(const Request& request);
  Result<std::string> enrol(const PublicKey& token, const PublicKey& key,
                            std::optional<Role> wanted, const std::string& machine);
  // Whether an earlier start has written the summary; it now serves members that lack the weights.
  bool finished_before() const { return fs::exists(summary_file(folder_)); }
  RunStatus status() const {
    RunStatus status = status_of(run_.recipe, *host_, plan_.rounds(), servers_->obstacle(),
                                 machine_of_, contributions_.all());
    add_privacy(run_.recipe.privacy, plan_, status);
    return status;
  }
  bool stopped() const { return options_.stop != nullptr && *options_.stop; }
  ServeResult finish();

  const ServeOptions& options_;
  const ServedRun run_;
  const fs::path folder_;
  const std::unique_ptr<Signer> signer_;
  const std::string name_;  // of the coordinator, and of the run
  RunKeys keys_;
  const MachineOf machine_of_ = [this](const PublicKey& key) { return keys_.machine_of(key); };
  const std::unique_ptr<RunServers> servers_;
  std::unique_ptr<transport::Courier> courier_;
  std::unique_ptr<SharedKeys> shared_keys_;       // with other coordinators; null: there are none
  std::unique_ptr<ConnectionLimit> connections_;  // null: they are not counted
  const membership::RecipePlan plan_;
  RunDisplay display_;
  std::optional<RunWatch> watch_;
  std::unique_ptr<serve::CoordinatorHost> host_;
  std::optional<WeightsReception> weights_;  // none: they are not wanted
  std::unique_ptr<RequestHandler> requests_;
  RunEnd end_;
  FinalLosses losses_;
  Contributions contributions_;
  LedgerNote ledger_;
  double waiting_checked_at_ = 0;
  std::string waiting_;                   // what for, when it was last checked
  std::string reported_waiting_;          // as last shown
  std::string folder_problem_;            // why it could not be written to; empty: it could
  std::map<PublicKey, double> excluded_;  // since when, of members that were not shut out yet
  bool founded_now_ = false;  // by this start, not an earlier one or another coordinator
  bool leads_ = true;         // as last shown
  bool told_of_speeds_ = false;
  std::atomic<bool> host_stop_ = false;
  std::atomic<bool> over_ = false;
  std::string host_failure_;  // of the host's thread until host_failed_
  std::atomic<bool> host_failed_ = false;
  std::thread host_thread_;
};

Service::Service(ServedRun run, std::unique_ptr<RunServers> servers, const ServeOptions& options)
    : options_(options),
      run_(std::move(run)),
      folder_(run_.recipe.run.dir),
      signer_(make_signer(run_.seed)),
      name_(participant_name(signer_->key())),
      keys_(folder_, options.token_days),
      servers_(std::move(servers)),
      plan_(run_.recipe, method::tensors_of(run_.recipe)),
      display_(run_.recipe, machine_of_, options.display),
      end_(run_.recipe),
      losses_(run_.scores),
      contributions_(folder_ / kServerFolder / "contributions.json"),
      ledger_(folder_ / kServerFolder) {
  page::LiveRun* const page =
      options_.watch ? options_.watch(run_.recipe, plan_.rounds()) : nullptr;
  if (page != nullptr) {
    watch_.emplace(run_.recipe, loss_board(run_), *page, machine_of_);
  }
  connect();
  founded_now_ = publish_run(*courier_, *signer_, run_, options_.stop);
  start_host();
  start_requests();
}

Service::~Service() {
  host_stop_ = true;
  if (host_thread_.joinable()) host_thread_.join();
}

void Service::connect() {
  // Before anything is stored, so that the disk does not fill up in the middle of the run.
  const RunDescription& run = run_.description;
  const uint64_t files =
      run.data_bytes() + (run.base ? run.base->bytes() : 0) + (run.tasks ? run.tasks->bytes() : 0);
  options_.display.message(servers_->room(run_.recipe, static_cast<double>(files)));
  servers_->start(run_.recipe, run_.seed, keys_.users());
  servers_->entrance().store(folder_ / kServerFolder);
  courier_ = servers_->connect();
  shared_keys_ = servers_->share_keys(*courier_, *signer_, folder_);
  connections_ = servers_->limit_connections(*courier_);
}

// Sends a request as members do: of several coordinators, the leading one answers at once.
bool Service::another_leads() {
  if (shared_keys_ == nullptr || founded_now_) return false;
  RequestClient client(*courier_, signer_->key(), *signer_);
  return client.ask(RequestKind::kProbe, Bytes(sizeof(uint32_t)), kProbeSeconds).has_value();
}

void Service::start_host() {
  serve::HostOptions options;
  options.membership = membership::options_of(run_.recipe);
  options.founding = run_.description.founding;
  options.remembered = ledger_.remembered();
  options.standby = another_leads();
  options.sums = sync::sum_rule(run_.recipe);
  options.keeps = !servers_->entrance().sites().empty();
  options.equal_rows = run_.recipe.sync.shares == config::RowShares::kEqual;
  options.snapshot_bytes = static_cast<uint64_t>(snapshot_bytes(run_.recipe));
  options.hooks.progress = [this](const membership::State& state, bool complete) {
    if (complete) display_.show(state);
    ledger_.reached(state.position);
    if (!over_) end_.note(state);
  };
  options.hooks.refuse = [this](const PublicKey& key) { return keys_.why_no_member(key); };
  options.hooks.is_revoked = [this](const PublicKey& key) { return keys_.is_revoked(key); };
  options.hooks.is_auditor = [this](const PublicKey& key) { return keys_.is_auditor(key); };
  options.hooks.check = [this, check = serve::payload_check(run_.recipe, plan_,
                                                            run_.description.founding.run,
                                                            sketch_seed(run_.seed))](
                            const membership::Offer& offer, const auto&... rest) {
    contributions_.offered(offer);
    return check(offer, rest...);
  };
  options.hooks.message = [this](const std::string& text) { announce(text); };
  options.hooks.loss = [this](const membership::Loss& loss) {
    losses_.add(loss);
    if (watch_) watch_->add_loss(loss);
  };
  options.hooks.record = [this](const membership::Record& record, bool earlier) {
    const double now = monotonic_seconds();
    display_.record(record, earlier, now);
    contributions_.record(record);
    losses_.record(record);
    if (watch_) watch_->record(record, earlier, now);
  };
  host_ = std::make_unique<serve::CoordinatorHost>(*courier_, *signer_, plan_, std::move(options));
  host_->tick(monotonic_seconds());  // sets leads()
  host_thread_ = std::thread([this] { coordinate(); });
}

void Service::start_requests() {
  if (options_.weights && !finished_before()) {
    const WaitLimits patience = servers_->patience(
        {.arrival_s = kPartSeconds, .wait_s = kPartSeconds, .message = options_.display.message});
    weights_.emplace(*courier_, run_, patience, options_.display.message);
  }
  requests_ = std::make_unique<RequestHandler>(
      *courier_, *signer_, run_.files,
      RequestHandler::Callbacks{
          [this](const PublicKey& token, const PublicKey& key, std::optional<Role> wanted,
                 const std::string& machine) { return enrol(token, key, wanted, machine); },
          [this] { return print_status(status()); }, [this] { return run_.description.recipe; },
          [this](const PublicKey& member, const events::Summary& summary) {
            end_.add(member, summary);
            host_->note_result(member);
            const bool may_give = weights_ && leads() && keys_.why_no_member(member).empty();
            return may_give ? weights_->reported(member, monotonic_seconds())
                            : WeightsAnswer::kNotWanted;
          },
          [this] { return leads(); }, [this](const Request& request) { return refusal(request); },
          servers_->checks_names(), [this](const Sha256& file) { host_->protect(file); },
          servers_->entrance().sites(),
          [this](const Request& request) { return answer_weights(request); },
          options_.display.message});
}

std::string Service::refusal(const Request& request) const {
  if (keys_.is_revoked(request.requester)) return "the key was revoked";
  const bool newcomer = request.what == RequestKind::kEnrol;
  if (!servers_->checks_names() && !newcomer && !keys_.is_known(request.requester)) {
    return "the key or token is not valid for the run";
  }
  const bool members_only =
      request.what == RequestKind::kPlace || request.what == RequestKind::kWeights;
  if (members_only) return keys_.why_no_member(request.requester);
  return request.what == RequestKind::kParts ? keys_.why_no_data(request.requester) : "";
}

Result<WeightsAnswer> Service::answer_weights(const Request& request) {
  if (!weights_) return WeightsAnswer::kNotWanted;
  std::optional<RunWeights> weights;
  if (const auto digest = end_.digest(*host_)) {
    weights = weights_of(host_->state(), *digest, run_.recipe.checkpoint.best);
  }
  return weights_->answer(request, weights, monotonic_seconds());
}

// After the end it continues to listen, to know which members are still present.
void Service::coordinate() {
  try {
    host_->run(host_stop_);
    over_ = true;
    while (!host_stop_) {
      host_->tick(monotonic_seconds());
      std::this_thread::sleep_for(kPause);
    }
  } catch (const std::exception& error) {
    host_failure_ = plain_message(error);
    host_failed_ = true;
  }
}

void Service::announce(const std::string& message) {
  options_.display.message(message);
  if (watch_) watch_->add_message(message);
}

void Service::tell_ready() const {
  const Entrance& entrance = servers_->entrance();
  hosts::tell_ready(options_, run_.recipe, entrance,
                    entrance.token(name_, keys_.token(), keys_.token_expires()));
}

void Service::maintain_servers() {
  const std::string message = servers_->maintain();
  if (!message.empty()) announce(message);
}

// So that every coordinator that a newcomer may reach knows the token of the ready file.
void Service::await_shared_keys() {
  if (!shared_keys_) return;
  const Stopwatch watch;
  bool reported = false;
  while (!shared_keys_->serve_pending() && !stopped()) {
    if (watch.seconds() > kQuorumSeconds && !std::exchange(reported, true)) {
      options_.display.message(
          "waits for the cluster to store the run's keys; are most of its servers up?");
    }
    std::this_thread::sleep_for(kPause);
  }
}

void Service::check_keys() {
  if (shared_keys_) shared_keys_->serve_pending();
  if (keys_.update()) servers_->set_users(keys_.users());
}

void Service::tell_of_speeds() {
  if (told_of_speeds_ || run_.recipe.sync.shares != config::RowShares::kEqual) return;
  const std::string text = on_speeds(contributions_.all());
  told_of_speeds_ = !text.empty();
  if (told_of_speeds_) announce(text);
}

// Where it cannot be written to, as on a full disk, the run goes on, and it is tried again.
void Service::keep_folder() {
  try {
    shut_out_excluded();
    shut_out_crowding();
    check_keys();
    if (servers_->obstacle().empty()) ledger_.keep(monotonic_seconds());
    contributions_.keep(monotonic_seconds());
    tell_of_speeds();
    keys_.number(host_->state().members);
    folder_problem_.clear();
  } catch (const Error& problem) {
    if (std::exchange(folder_problem_, problem.what()) == problem.what()) return;
    announce(
        fmt::format("{}; the run goes on without that, and it is tried again", problem.what()));
  }
}

// Revokes their keys: the server then closes their connections, through which they could go on
// storing.
void Service::shut_out_excluded() {
  if (!leads()) return;
  const double now = monotonic_seconds();
  for (const membership::Member& member : host_->state().members) {
    if (member.phase != membership::Phase::kExcluded || keys_.is_revoked(member.key)) continue;
    const double since = excluded_.emplace(member.key, now).first->second;
    if (now - since >= kFarewellSeconds) keys_.revoke(member.key);
  }
}

// Revokes the keys of those who have too many connections. Tokens may have any number: those of who
// is enrolling.
void Service::shut_out_crowding() {
  if (!connections_) return;
  for (const PublicKey& owner : connections_->exceeded(monotonic_seconds())) {
    if (!keys_.is_enrolled(owner)) continue;
    keys_.revoke(owner);
    announce(fmt::format(
        "the participant with key {} was shut out: it had more than {} connections for {:g} s",
        key_id(owner), kMaxConnections, kToleratedSeconds));
  }
}

void Service::report_leader() {
  if (leads() == leads_) return;
  leads_ = !leads_;
  announce(leads_ ? "takes over: no other coordinator leads the run"
                  : "stands by: another coordinator leads the run");
}

// Says here what lasts, and to the members everything.
void Service::report_waiting() {
  const double now = monotonic_seconds();
  if (now - waiting_checked_at_ < kWaitingSeconds) return;
  waiting_checked_at_ = now;
  std::string text = waits_for(run_.recipe, *host_, servers_->obstacle());
  host_->tell(text);
  const bool lasts = text == std::exchange(waiting_, text);
  if (!lasts || text == reported_waiting_) return;
  reported_waiting_ = text;
  if (!text.empty() && leads()) options_.display.message("waits for " + text);
}

Result<std::string> Service::enrol(const PublicKey& token, const PublicKey& key,
                                   std::optional<Role> wanted, const std::string& machine) {
  try {
    check_keys();
    const Result<transport::NatsUser> user = keys_.enrol(token, key, wanted, machine);
    if (!user) return tl::unexpected(user.error());
    check_keys();
    return servers_->entrance().jwt(name_, *user);
  } catch (const Error& problem) {  // on a full disk, say
    return fail(FailureKind::kRefused,
                fmt::format("the coordinator cannot note its key: {}", problem.what()));
  }
}

ServeResult Service::serve() {
  if (options_.on_start) options_.on_start();
  await_shared_keys();
  tell_ready();
  while (!stopped()) {
    requests_->serve_pending(kPollSeconds);
    if (watch_) watch_->update(*host_, servers_->obstacle(), contributions_.all());
    maintain_servers();
    keep_folder();
    report_leader();
    report_waiting();
    if (host_failed_) throw Error(host_failure_);
    if (const std::string text = end_.waiting_message(*host_); !text.empty()) {
      options_.display.message(text);
    }
    // A member that was lost may come back once the run is over.
    const double now = monotonic_seconds();
    const bool awaited = end_.awaits_results(*host_, now) || (weights_ && weights_->busy(now));
    if (over_ && host_->unfinished().empty() && !awaited) return finish();
  }
  if (weights_) weights_->end();
  ledger_.keep_last();
  contributions_.keep_last();
  const membership::State state = host_->state();
  if (end_.digest(*host_) || finished_before()) return finish();
  return {
      ServeOutcome::kStopped, state.open.empty() ? state.next_round : state.open.front().round, {}};
}

ServeResult Service::finish() {
  // Before the summary.
  const std::string lacking = end_.note_lacking(*host_, folder_ / kServerFolder / kLackingFile);
  if (!lacking.empty()) options_.display.message(lacking);
  if (finished_before()) {
    return {ServeOutcome::kFinished, plan_.rounds(), events::read_summary(summary_file(folder_))};
  }
  const auto digest = end_.digest(*host_);
  if (!digest) {
    throw Error(
        "the run is complete, but no member that has its weights is present; start one, and "
        "repeat the command");
  }
  if (weights_ && weights_->kept() && weights_->kept() != digest) weights_->discard();
  if (weights_ && !weights_->kept() && leads()) {
    options_.display.message(fmt::format(
        "{} is without the final weights: they are in the members' folders", folder_.string()));
  }
  events::Summary summary = end_.summarise(*digest, host_->state().next_step);
  losses_.fill(summary.steps, summary);
  const RunStatus last = status();
  for (const std::string& line : describe_contributions(last.members))
    options_.display.message(line);
  write_run_summary(summary_file(folder_), summary, last);
  return {ServeOutcome::kFinished, plan_.rounds(), summary};
}

}  // namespace

ServeResult serve_run(config::Recipe recipe, const ServeOptions& options) {
  std::unique_ptr<RunServers> servers = servers_of(options);
  const fs::path folder = recipe.run.dir;
  ServedRun run = open_served_run(std::move(recipe), *servers, options.display.message);
  if (fs::exists(summary_file(folder)) && !fs::exists(folder / kServerFolder / kLackingFile)) {
    return {ServeOutcome::kAlreadyFinished, 0, events::read_summary(summary_file(folder))};
  }
  return Service(std::move(run), std::move(servers), options).serve();
}

}  // namespace thinwire::hosts

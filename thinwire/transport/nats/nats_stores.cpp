#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/mutex.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/nats_answers.h"

namespace thinwire::transport {
namespace {

constexpr std::chrono::milliseconds kNotYetPause(250);  // while a cluster elects a leader
constexpr double kAllServersSeconds = 5;  // within which a starting cluster finds all its servers
// After which a request is made again: a cluster whose leaders change may leave one unanswered.
constexpr double kResendSeconds = 5;

// Makes requests one after another.
class Asker {
 public:
  Asker() = default;
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  ~Asker() { connection_.reset(); }  // no answer comes after this

  Result<void> connect(const NatsOptions& options) {
    const auto refused = [this](const std::string& text) {
      add(fail(FailureKind::kRefused, "the server says: " + text));
    };
    auto connection = connect_nats(
        options.target,
        {[this](NatsMessage message) { add(std::move(message)); }, [](bool) {}, refused, refused});
    if (!connection) return tl::unexpected(connection.error());
    connection_ = std::move(*connection);
    inbox_ = NatsSubjects::fresh_inbox(options.self);
    connection_->subscribe(inbox_ + ".*");
    return {};
  }
  // The answer to this request; a late one to an earlier request is dropped. Nothing: none came.
  std::optional<Result<NatsMessage>> ask(const std::string& subject, const std::string& request,
                                         double seconds) {
    const std::string reply = fmt::format("{}.{}", inbox_, ++requests_);
    auto sent = connection_->publish(subject, reply, {}, as_bytes(request));
    if (!sent) return tl::unexpected(sent.error());
    const Lock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    const auto any = [&]() REQUIRES(mutex_) { return !answers_.empty(); };
    while (arrived_.wait_until(mutex_, deadline, any)) {
      Result<NatsMessage> answer = std::move(answers_.front());
      answers_.pop_front();
      if (!answer || answer->subject == reply) return answer;
    }
    return std::nullopt;
  }

 private:
  void add(Result<NatsMessage> answer) {
    const Lock lock(mutex_);
    answers_.push_back(std::move(answer));
    arrived_.notify_one();
  }

  Mutex mutex_;
  Condition arrived_;
  std::deque<Result<NatsMessage>> answers_ GUARDED_BY(mutex_);
  std::string inbox_;
  int64_t requests_ = 0;
  std::unique_ptr<NatsConnection> connection_;
};

// Asks until the servers decide. Asking twice makes no second store.
Result<StoreMade> create(Asker& requester, const std::string& subject, const std::string& request,
                         double timeout_s) {
  const Stopwatch watch;
  while (true) {
    const double left = std::max(timeout_s - watch.seconds(), 0.0);
    const auto answer = requester.ask(subject, request, std::min(left, kResendSeconds));
    const bool unserved = answer && *answer && has_status(**answer, "503");
    Result<StoreMade> made = answer && !unserved ? parsed(*answer, parse_made) : StoreMade::kNotYet;
    if (!made || *made != StoreMade::kNotYet) return made;
    if (watch.seconds() >= timeout_s) {
      if (!answer) {
        return fail(FailureKind::kDeadline,
                    fmt::format("the server did not answer in {:g} s", timeout_s));
      }
      return fail(FailureKind::kDeadline,
                  fmt::format("the servers have had no leader for {:g} s; is JetStream enabled for "
                              "the account, and are most of its servers up?",
                              timeout_s));
    }
    std::this_thread::sleep_for(kNotYetPause);
  }
}

using Request = std::function<std::string(const StoreLimits& limits)>;

// How the same run keeps its chunks already, if not as it is served now.
std::string why_overlaps(const NatsSubjects& subjects) {
  return fmt::format("the cluster keeps the run's payloads {}; serve it {} --sites",
                     subjects.sites() ? "in one store" : "apart for each site",
                     subjects.sites() ? "without" : "with");
}

std::string why_nowhere(const std::string& site) {
  if (site.empty()) return "no server has room for it";
  return fmt::format("no server that is up and has room has {:?} in its server_tags", site);
}

// Makes the stores of a run one after another.
class StoreMaker {
 public:
  StoreMaker(Asker& requester, const NatsSubjects& subjects, double timeout_s)
      : requester_(requester), subjects_(subjects), timeout_s_(timeout_s) {}

  // Returns the number of replicas.
  Result<int> make(const std::string& store, const Request& request, StoreLimits limits) {
    while (limits.replicas > 0) {
      const auto made = create(requester_, subjects_.create(store), request(limits), timeout_s_);
      if (!made) return failure(store, made.error().kind, made.error().message);
      if (*made == StoreMade::kMade || *made == StoreMade::kDiffers) return limits.replicas;
      if (*made == StoreMade::kOverlaps) {
        return failure(store, FailureKind::kRefused, why_overlaps(subjects_));
      }
      if (*made == StoreMade::kTooFewServers && watch_.seconds() < kAllServersSeconds) {
        std::this_thread::sleep_for(kNotYetPause);
        continue;
      }
      limits.replicas =
          *made == StoreMade::kNoCluster && limits.replicas > 1 ? 1 : limits.replicas - 1;
    }
    return failure(store, FailureKind::kRefused, why_nowhere(limits.site));
  }

 private:
  static tl::unexpected<Failure> failure(const std::string& store, FailureKind kind,
                                         const std::string& why) {
    return fail(kind, fmt::format("creating store {}: {}", store, why));
  }

  Asker& requester_;
  const NatsSubjects& subjects_;
  const double timeout_s_;
  const Stopwatch watch_;
};

}  // namespace

Result<int> create_nats_stores(const NatsOptions& options, const std::vector<std::string>& streams,
                               StoreLimits limits) {
  check_courier_name("a run", options.run);
  check_courier_name("a participant", options.self);
  for (const std::string& stream : streams) check_courier_name("a stream", stream);
  const NatsSubjects subjects(options.run, options.sites);
  Asker requester;
  if (auto connected = requester.connect(options); !connected) {
    return tl::unexpected(connected.error());
  }
  StoreMaker maker(requester, subjects, options.target.timeout_s);
  const std::string holder = options.sites ? options.self : "*";
  StoreLimits of_chunks = limits;
  if (options.sites) of_chunks.replicas = 1;
  Result<int> replicas = maker.make(
      subjects.chunk_store(holder),
      [&](const StoreLimits& allowed) { return chunk_store_request(subjects, holder, allowed); },
      of_chunks);
  if (!replicas) return replicas;
  if (!options.sites) limits.replicas = *replicas;
  for (const std::string& stream : streams) {
    Result<int> of_records = maker.make(
        subjects.record_store(stream),
        [&](const StoreLimits& allowed) { return record_store_request(subjects, stream, allowed); },
        {.replicas = limits.replicas});
    if (!of_records) return of_records;
    limits.replicas = *of_records;
  }
  return limits.replicas;
}

}  // namespace thinwire::transport

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "thinwire/transport/nats/courier_nats.h"

namespace thinwire::transport {
namespace {

// Answers to requests that are made one after another.
class Answers {
 public:
  void add(Result<void> answer) {
    const std::scoped_lock lock(mutex_);
    answers_.push_back(std::move(answer));
    arrived_.notify_one();
  }
  Result<void> wait(double seconds) {
    std::unique_lock lock(mutex_);
    const std::chrono::duration<double> patience(seconds);
    if (!arrived_.wait_for(lock, patience, [&] { return !answers_.empty(); })) {
      return fail(FailureKind::kDeadline,
                  fmt::format("the server did not answer in {:g} s", seconds));
    }
    Result<void> answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Result<void>> answers_;
};

}  // namespace

Result<void> create_nats_stores(const NatsOptions& options, const std::vector<std::string>& streams,
                                const StoreLimits& limits) {
  check_courier_name("a run", options.run);
  const NatsSubjects subjects(options.run);
  std::vector<std::pair<std::string, std::string>> requests;  // store, request
  requests.emplace_back(subjects.chunk_store(), chunk_store_request(subjects, limits));
  for (const std::string& stream : streams) {
    check_courier_name("a stream", stream);
    requests.emplace_back(subjects.record_store(stream),
                          record_store_request(subjects, stream, limits));
  }

  Answers answers;
  const auto refused = [&](const std::string& text) {
    answers.add(fail(FailureKind::kRefused, "the server says: " + text));
  };
  auto connection = connect_nats(
      options.target, {[&](const NatsMessage& message) { answers.add(parse_answer(message.body)); },
                       [](bool) {}, refused, refused});
  if (!connection) return tl::unexpected(connection.error());
  const std::string inbox = NatsSubjects::inbox(options.self) + ".stores";
  (*connection)->subscribe(inbox);
  for (const auto& [store, request] : requests) {
    auto sent = (*connection)->publish(subjects.create(store), inbox, {}, as_bytes(request));
    if (!sent) return sent;
    if (auto answer = answers.wait(options.target.timeout_s); !answer) {
      return fail(answer.error().kind,
                  fmt::format("making store {}: {}", store, answer.error().message));
    }
  }
  return {};
}

}  // namespace thinwire::transport

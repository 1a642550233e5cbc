#include "thinwire/transport/nats/nats_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/transport/nats/nats_answers.h"

namespace thinwire::transport {
namespace {

constexpr double kAgainSeconds = 0.25;    // a cluster takes seconds to elect another server
constexpr double kMissingSeconds = 0.02;  // and milliseconds to bring a message to all of them

}  // namespace

NatsRequests::NatsRequests(std::string inbox, double timeout_s)
    : inbox_(std::move(inbox)), timeout_s_(timeout_s) {}

void NatsRequests::ask(double now, const std::string& subject, bool connected, Send send_request,
                       Answer answer_to, double settle_s) {
  const uint64_t number = ++last_number_;
  Waiting& waiting =
      waiting_
          .emplace(number, Waiting{subject, std::move(send_request), std::move(answer_to),
                                   now + timeout_s_, now + settle_s})
          .first->second;
  waiting.failure = failed_;
  if (connected && !failed_) send(number, waiting);
}

void NatsRequests::send(uint64_t number, Waiting& waiting) {
  const Result<void> sent = waiting.send(inbox_ + "." + std::to_string(number));
  if (!sent && sent.error().kind == FailureKind::kRefused) waiting.failure = sent.error();
}

void NatsRequests::take(double now, NatsMessage message) {
  const auto number = number_of(message.subject);
  const auto found = number ? waiting_.find(*number) : waiting_.end();
  if (found == waiting_.end()) return;
  Waiting& waiting = found->second;
  if (is_missing(message) && now < waiting.settled) {
    waiting.again = now + kMissingSeconds;
    return;
  }
  if (!is_unserved(message)) return answer(*number, std::move(message));
  waiting.unserved = true;
  waiting.again = now + kAgainSeconds;
}

void NatsRequests::answer(uint64_t number, Result<NatsMessage> result) {
  auto waiting = waiting_.extract(number);
  if (!waiting.empty()) waiting.mapped().answer(std::move(result));
}

void NatsRequests::refused(const std::string& text) {
  // Permissions Violation for Publish to "SUBJECT"
  const Failure failure{FailureKind::kRefused, "the server says: " + text};
  std::vector<uint64_t> numbers;
  for (const auto& [number, waiting] : waiting_) {
    if (text.find("\"" + waiting.subject + "\"") != text.npos) numbers.push_back(number);
  }
  for (const uint64_t number : numbers) answer(number, tl::unexpected(failure));
}

void NatsRequests::fail_all(const Failure& failure) {
  failed_ = failure;
  for (auto& [number, waiting] : std::exchange(waiting_, {})) {
    waiting.answer(tl::unexpected(failure));
  }
}

void NatsRequests::expire(double now) {
  std::vector<std::pair<uint64_t, Failure>> failures;
  for (auto& [number, waiting] : waiting_) {
    if (!waiting.failure && waiting.deadline > now && waiting.again <= now) {
      waiting.again = kNever;
      send(number, waiting);
    }
    if (waiting.failure) {
      failures.emplace_back(number, *waiting.failure);
    } else if (waiting.deadline <= now) {
      failures.emplace_back(number, late(waiting));
    }
  }
  for (const auto& [number, failure] : failures) answer(number, tl::unexpected(failure));
}

Failure NatsRequests::late(const Waiting& waiting) const {
  if (waiting.unserved) {
    return {FailureKind::kDeadline,
            fmt::format("no server has had the run's stores for {:g} s", timeout_s_)};
  }
  return {FailureKind::kDeadline, fmt::format("the server did not answer in {:g} s", timeout_s_)};
}

double NatsRequests::next() const {
  double next = kNever;
  for (const auto& [number, waiting] : waiting_) {
    if (waiting.failure) return 0;
    next = std::min({next, waiting.deadline, waiting.again});
  }
  return next;
}

}  // namespace thinwire::transport

#include "thinwire/transport/nats/nats_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "thinwire/transport/nats/jetstream.h"
#include "thinwire/transport/nats/nats_answers.h"

namespace thinwire::transport {
namespace {

constexpr double kAgainSeconds = 0.25;    // a cluster takes seconds to elect another server
constexpr double kMissingSeconds = 0.02;  // and milliseconds to bring a message to all of them

constexpr double kLateSeconds = 2.5;   // an answer, at least
constexpr double kSoonSeconds = 0.25;  // if a server hangs
constexpr double kSlack = 4;           // times what the slowest of the last answers took
constexpr size_t kAnswersKept = 16;
constexpr int kSuspicion = 32;
constexpr int kSoonRepeats = 3;  // chance may choose the one that hangs again

bool may_be_late(Repeat repeat) { return repeat != Repeat::kNever && repeat != Repeat::kAppend; }

bool may_be_lost(Repeat repeat) { return repeat == Repeat::kAppend || repeat == Repeat::kQuestion; }

}  // namespace

double ResendTimer::slowest() const { return last_.empty() ? 0 : *std::ranges::max_element(last_); }

void ResendTimer::answered(double seconds, bool unanswered) {
  last_.push_back(seconds);
  if (last_.size() > kAnswersKept) last_.pop_front();
  const bool are_quick = kSlack * slowest() < kLateSeconds;
  suspicion_ = unanswered && are_quick ? kSuspicion : std::max(suspicion_ - 1, 0);
}

double ResendTimer::seconds(int late) const {
  const int doubled = suspicion_ > 0 ? late - kSoonRepeats : late;
  if (doubled < 0) return std::max(kSoonSeconds, kSlack * slowest());
  return std::ldexp(std::max(kLateSeconds, kSlack * slowest()), doubled);
}

NatsRequests::NatsRequests(std::string inbox, double timeout_s)
    : inbox_(std::move(inbox)), timeout_s_(timeout_s) {}

void NatsRequests::ask(double now, Request request) {
  const uint64_t number = ++last_number_;
  Waiting& waiting = waiting_.emplace(number, Waiting{std::move(request), now}).first->second;
  waiting.failure = failed_;
  if (connected_ && !failed_) send(now, number, waiting);
}

void NatsRequests::send(double now, uint64_t number, Waiting& waiting) {
  const AnswerPlace place{number, waiting.sendings.size()};
  waiting.sendings.push_back({now});
  waiting.again = kNever;
  const Result<void> sent = waiting.request.send(print_place(inbox_, place));
  if (!sent && sent.error().kind == FailureKind::kRefused) waiting.failure = sent.error();
}

void NatsRequests::send_lost(double now) {
  if (!connected_) return;
  for (auto& [number, waiting] : waiting_) {
    if (may_be_lost(waiting.request.repeat)) send(now, number, waiting);
  }
}

void NatsRequests::take(double now, NatsMessage message) {
  const auto place = parse_place(message.subject);
  const auto found = place ? waiting_.find(place->number) : waiting_.end();
  if (found == waiting_.end() || place->sending >= found->second.sendings.size()) return;
  Waiting& waiting = found->second;
  if (is_missing(message) && now < waiting.asked + waiting.request.settle_s) {
    waiting.again = now + kMissingSeconds;
    return;
  }
  if (is_unserved(message)) return take_unserved(now, place->number, waiting);
  const std::span before = std::span(waiting.sendings).first(place->sending);
  timers_[waiting.request.repeat].answered(now - waiting.sendings[place->sending].at,
                                           std::ranges::any_of(before, &Sending::late));
  answer(place->number, std::move(message));
}

void NatsRequests::take_unserved(double now, uint64_t number, Waiting& waiting) {
  waiting.unserved_since = std::min(waiting.unserved_since, now);
  waiting.again = now + kAgainSeconds;
  const double unserved_s = now - waiting.unserved_since;
  if (unserved_s < waiting.request.unserved_s) return;
  answer(number, tl::unexpected(late(waiting, waiting.request.unserved_s)));
}

void NatsRequests::answer(uint64_t number, Result<NatsMessage> result) {
  auto waiting = waiting_.extract(number);
  if (!waiting.empty()) waiting.mapped().request.answer(std::move(result));
}

void NatsRequests::refused(const std::string& text) {
  // Permissions Violation for Publish to "SUBJECT"
  const Failure failure{FailureKind::kRefused, "the server says: " + text};
  std::vector<uint64_t> numbers;
  for (const auto& [number, waiting] : waiting_) {
    if (text.find("\"" + waiting.request.subject + "\"") != text.npos) numbers.push_back(number);
  }
  for (const uint64_t number : numbers) answer(number, tl::unexpected(failure));
}

void NatsRequests::fail_all(const Failure& failure) {
  failed_ = failure;
  for (auto& [number, waiting] : std::exchange(waiting_, {})) {
    waiting.request.answer(tl::unexpected(failure));
  }
}

void NatsRequests::expire(double now) {
  std::vector<std::pair<uint64_t, Failure>> failures;
  for (auto& [number, waiting] : waiting_) {
    const bool expired = waiting.asked + timeout_s_ <= now;
    if (!waiting.failure && !expired && due(waiting) <= now) {
      if (waiting.again > now && !waiting.sendings.empty()) waiting.sendings.back().late = true;
      send(now, number, waiting);
    }
    if (waiting.failure) {
      failures.emplace_back(number, *waiting.failure);
    } else if (expired) {
      failures.emplace_back(number, late(waiting, timeout_s_));
    }
  }
  for (const auto& [number, failure] : failures) answer(number, tl::unexpected(failure));
}

// A server that hangs does not answer the second time either if it is the one that is asked again,
// so there is a third time, and so on; each waits twice as long, because the line may be slow.
double NatsRequests::due(const Waiting& waiting) const {
  if (!connected_) return kNever;
  if (!may_be_late(waiting.request.repeat)) return waiting.again;
  static const ResendTimer kUnknown;
  const auto known = timers_.find(waiting.request.repeat);
  const ResendTimer& timer = known == timers_.end() ? kUnknown : known->second;
  if (waiting.sendings.empty()) return 0;
  const auto late = std::ranges::count_if(waiting.sendings, &Sending::late);
  return std::min(waiting.again,
                  waiting.sendings.back().at + timer.seconds(static_cast<int>(late)));
}

Failure NatsRequests::late(const Waiting& waiting, double seconds) {
  if (waiting.unserved_since < kNever) {
    return {FailureKind::kDeadline,
            fmt::format("no server has had the run's stores for {:g} s", seconds)};
  }
  return {FailureKind::kDeadline, fmt::format("the server did not answer in {:g} s", seconds)};
}

double NatsRequests::next() const {
  double next = kNever;
  for (const auto& [number, waiting] : waiting_) {
    if (waiting.failure) return 0;
    next = std::min({next, waiting.asked + timeout_s_, due(waiting)});
  }
  return next;
}

namespace {

constexpr size_t kMaxSite = 255;

bool is_site(std::string_view text) {
  const auto fits = [](char c) {
    return is_courier_name(std::string_view(&c, 1)) || c == '.' || c == ':';
  };
  return !text.empty() && text.size() <= kMaxSite && std::ranges::all_of(text, fits);
}

std::string in_lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

auto not_placed(const std::string& why) { return fail(FailureKind::kRefused, why); }

}  // namespace

void ChunkStores::drop(const Sha256& blob, const std::string& holder, Courier::Done done) {
  ask_(subjects_.purge(subjects_.chunk_store(holder)),
       purge_request(subjects_.chunk(holder, to_hex(blob) + ".*")),
       [done = std::move(done)](const Result<NatsMessage>& message) {
         done(parsed(message, parse_answer));
       });
}

void ChunkStores::count(Courier::Counted counted) {
  if (subjects_.sites()) return count_from(0, 0, std::move(counted));
  ask_(subjects_.info(subjects_.chunk_store("*")), "",
       [counted = std::move(counted)](const Result<NatsMessage>& message) {
         counted(parsed(message, parse_stored_count));
       });
}

// Adds the stores from number `first` on to the chunks of those `before`. Stores of servers that
// are down are left out by the others.
void ChunkStores::count_from(uint64_t first, uint64_t before, Courier::Counted counted) {
  ask_(NatsSubjects::list(), list_request(subjects_.chunk("*", NatsSubjects::kAllChunks), first),
       [this, first, before, counted = std::move(counted)](const Result<NatsMessage>& message) {
         const Result<ListedStores> listed = parsed(message, parse_listed_stores);
         if (!listed) return counted(tl::unexpected(listed.error()));
         const uint64_t chunks = before + listed->messages;
         const uint64_t next = first + listed->stores;
         if (listed->stores == 0 || next >= listed->total) return counted(chunks);
         count_from(next, chunks, counted);
       });
}

void ChunkStores::list(const std::string& holder, Courier::Listed listed) {
  ask_(subjects_.info(subjects_.chunk_store(holder)),
       subjects_request(subjects_.chunk(holder, NatsSubjects::kAllChunks)),
       [this, holder, listed = std::move(listed)](const Result<NatsMessage>& message) {
         listed(parsed(message, [&](std::span<const uint8_t> bytes) {
           return parse_stored_blobs(bytes, subjects_, holder);
         }));
       });
}

// Servers compare tags without regard to case.
void ChunkStores::place(const std::string& holder, const std::string& site, Courier::Done done) {
  if (!subjects_.sites()) return done(not_placed("the run's servers are not sites"));
  if (!is_site(site)) {
    return done(not_placed(
        fmt::format("a site is 1 to {} of A-Z, a-z, 0-9, '.', ':', '-' and '_', got {:?}", kMaxSite,
                    site.substr(0, kMaxSite))));
  }
  const std::string tag = in_lower_case(site);
  ask_(subjects_.create(subjects_.chunk_store(holder)),
       chunk_store_request(subjects_, holder, {.site = tag}),
       [this, holder, tag, done = std::move(done)](const Result<NatsMessage>& message) {
         const Result<StoreMade> made = parsed(message, parse_made);
         if (!made) return done(tl::unexpected(made.error()));
         if (*made == StoreMade::kMade) return done({});
         if (*made == StoreMade::kDiffers) return check_place(holder, tag, done);
         if (*made == StoreMade::kNotYet) {
           return done(fail(FailureKind::kDeadline, "the servers have no leader at the moment"));
         }
         if (*made == StoreMade::kOverlaps) {
           return done(not_placed("the cluster keeps the run's payloads together, without sites"));
         }
         done(not_placed(fmt::format(
             "no server with room is at the site {}: none that is up has this in its server_tags",
             tag)));
       });
}

// The store must exist.
void ChunkStores::check_place(const std::string& holder, const std::string& site,
                              Courier::Done done) {
  ask_(subjects_.info(subjects_.chunk_store(holder)), "",
       [site, done = std::move(done)](const Result<NatsMessage>& message) {
         const Result<std::string> before = parsed(message, parse_site);
         if (!before && before.error().kind == FailureKind::kDeadline) {
           return done(not_placed(
               fmt::format("its payloads are kept at another site, whose server does not answer: "
                           "go on there once it does, or join at {} with a new run.dir",
                           site)));
         }
         if (!before) return done(tl::unexpected(before.error()));
         if (*before == site) return done({});
         done(not_placed(
             fmt::format("its payloads are kept at the site {:?}, not at {}: go on there, "
                         "or join with a new run.dir",
                         before->substr(0, kMaxSite), site)));
       });
}

}  // namespace thinwire::transport

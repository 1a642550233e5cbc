#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/transport/courier/blob_transfers.h"
#include "thinwire/transport/courier/listener.h"
#include "thinwire/transport/courier/record_reader.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/nats_answers.h"
#include "thinwire/transport/task_thread.h"

namespace thinwire::transport {
namespace {

constexpr double kPollShare = 0.25;  // of the time-out: how often a reader asks for what it missed

using Hearing = Listener<const std::string&, Bytes>;
using Reading = Listener<uint64_t, Bytes>;

std::string or_all(const std::string& name) { return name.empty() ? "*" : name; }

std::string random_token() {
  const Seed random = make_seed();
  return to_hex(sha256(random)).substr(0, 32);
}

// Everything below `thread_` belongs to that thread.
class JetstreamCourier final : public Courier, private ChunkWire {
 public:
  explicit JetstreamCourier(const NatsOptions& options)
      : options_(options),
        subjects_(options.run),
        inbox_(NatsSubjects::inbox(options.self) + "." + random_token()),
        transfers_(*this, options.target.timeout_s, options.max_blob_bytes),
        thread_([this] { return after_task(); }) {}
  ~JetstreamCourier() override;
  JetstreamCourier(const JetstreamCourier&) = delete;
  JetstreamCourier& operator=(const JetstreamCourier&) = delete;

  Result<void> open();

  const std::string& self() const override { return options_.self; }
  bool connected() const override { return connected_; }
  BlobId put(std::shared_ptr<const Bytes> blob, Priority priority, Done done) override;
  void get(const BlobId& id, std::vector<std::string> holders, Priority priority, Got got) override;
  void drop(const Sha256& chunk, const std::string& holder, Done done) override;
  void publish(const std::string& topic, Bytes statement) override;
  std::unique_ptr<Subscription> subscribe(const std::string& from, const std::string& topic,
                                          Hear hear) override;
  void append(const std::string& stream, uint64_t expected_last, Bytes record,
              Appended appended) override;
  void last(const std::string& stream, Appended answered) override;
  std::unique_ptr<Subscription> read(const std::string& stream, uint64_t first, Take take) override;

 private:
  using Answer = std::function<void(Result<NatsMessage>)>;
  struct Pending {
    std::string subject;
    double deadline;
    Answer answer;
  };
  struct Reader {
    std::string stream;
    RecordReader reader;
    std::shared_ptr<Reading> listener;
    double poll_at;
  };

  void store(uint64_t ticket, const Chunk& chunk) override;
  void fetch(uint64_t ticket, const Sha256& name, const std::string& holder) override;
  void ask(const std::string& subject, const std::vector<NatsHeader>& headers,
           std::span<const uint8_t> body, Answer answer);
  void answer(uint64_t number, Result<NatsMessage> result);
  void fail_pending(const Failure& failure, const std::function<bool(const Pending&)>& which);
  void take_message(NatsMessage message);
  void take_record(Reader& reader, NatsMessage message);
  void ask_records(uint64_t number);
  void link_changed(bool connected);
  void server_refused(const std::string& text);
  void be_shut_out(const std::string& text);
  double after_task();
  void expire(double now);
  void close();

  const NatsOptions options_;
  const NatsSubjects subjects_;
  const std::string inbox_;
  std::atomic<bool> connected_ = false;

  std::unique_ptr<NatsConnection> connection_;
  BlobTransfers transfers_;
  uint64_t inbox_number_ = 0;  // of its subscription
  uint64_t last_number_ = 0;
  std::map<uint64_t, Pending> pending_;
  std::map<uint64_t, std::shared_ptr<Hearing>> hearers_;  // by subscription
  std::map<uint64_t, Reader> readers_;                    // by subscription
  std::optional<Failure> shut_out_;                       // by the server
  TaskThread thread_;
};

JetstreamCourier::~JetstreamCourier() {
  thread_.post([this] { close(); });
}

void JetstreamCourier::close() {
  connected_ = false;
  connection_.reset();
  const Failure closed{FailureKind::kAborted, "the courier was closed"};
  transfers_.close(closed);
  fail_pending(closed, [](const Pending&) { return true; });
  hearers_.clear();
  readers_.clear();
}

Result<void> JetstreamCourier::open() {
  const auto post = [this](auto task) { thread_.post(std::move(task)); };
  NatsConnection::Events events{
      [this, post](NatsMessage message) {
        post([this, arrived = std::make_shared<NatsMessage>(std::move(message))] {
          take_message(std::move(*arrived));
        });
      },
      [this, post](bool connected) { post([this, connected] { link_changed(connected); }); },
      [this, post](const std::string& text) { post([this, text] { server_refused(text); }); },
      [this, post](const std::string& text) { post([this, text] { be_shut_out(text); }); }};
  auto connection = connect_nats(options_.target, std::move(events));
  if (!connection) return tl::unexpected(connection.error());
  connected_ = true;
  const auto shared = std::make_shared<std::unique_ptr<NatsConnection>>(std::move(*connection));
  post([this, shared] {
    connection_ = std::move(*shared);
    inbox_number_ = connection_->subscribe(inbox_ + ".*");
  });
  return {};
}

BlobId JetstreamCourier::put(std::shared_ptr<const Bytes> blob, Priority priority, Done done) {
  auto chunks = std::make_shared<const BlobChunks>(std::move(blob));
  thread_.post([this, chunks, priority, done = std::move(done)] {
    transfers_.put(monotonic_seconds(), chunks, priority, done);
  });
  return chunks->id();
}

void JetstreamCourier::get(const BlobId& id, std::vector<std::string> holders, Priority priority,
                           Got got) {
  for (const std::string& holder : holders) check_courier_name("a holder", holder);
  thread_.post([this, id, holders = std::move(holders), priority, got = std::move(got)] {
    transfers_.get(monotonic_seconds(), id, holders, priority, got);
  });
}

void JetstreamCourier::drop(const Sha256& chunk, const std::string& holder, Done done) {
  check_courier_name("a holder", holder);
  thread_.post([this, name = to_hex(chunk), holder, done = std::move(done)] {
    const std::string request = purge_request(subjects_.chunk(holder, name));
    ask(subjects_.purge(subjects_.chunk_store()), {}, as_bytes(request),
        [done](const Result<NatsMessage>& message) { done(parsed(message, parse_answer)); });
  });
}

void JetstreamCourier::publish(const std::string& topic, Bytes statement) {
  check_message("a topic", topic, statement.size());
  const auto said = std::make_shared<const Bytes>(std::move(statement));
  thread_.post([this, topic, said] {
    // What cannot be sent at the moment is lost, as statements may be.
    if (connected_) (void)connection_->publish(subjects_.statement(self(), topic), "", {}, *said);
  });
}

std::unique_ptr<Subscription> JetstreamCourier::subscribe(const std::string& from,
                                                          const std::string& topic, Hear hear) {
  auto listener = std::make_shared<Hearing>(std::move(hear));
  thread_.post([this, subject = subjects_.statement(or_all(from), or_all(topic)), listener] {
    hearers_.emplace(connection_->subscribe(subject), listener);
  });
  return std::make_unique<ListenerSubscription<Hearing>>(listener, [this, listener] {
    thread_.post([this, listener] {
      const auto own = std::ranges::find(hearers_, listener, [](auto& one) { return one.second; });
      if (own == hearers_.end()) return;
      connection_->unsubscribe(own->first);
      hearers_.erase(own);
    });
  });
}

void JetstreamCourier::append(const std::string& stream, uint64_t expected_last, Bytes record,
                              Appended appended) {
  check_message("a stream", stream, record.size());
  const auto added = std::make_shared<const Bytes>(std::move(record));
  thread_.post([this, stream, expected_last, added, appended = std::move(appended)] {
    const NatsHeader expected{"Nats-Expected-Last-Sequence", std::to_string(expected_last)};
    ask(subjects_.record(stream), {expected}, *added,
        [appended](const Result<NatsMessage>& message) {
          appended(parsed(message, parse_store_answer));
        });
  });
}

void JetstreamCourier::last(const std::string& stream, Appended answered) {
  check_courier_name("a stream", stream);
  thread_.post([this, stream, answered = std::move(answered)] {
    ask(subjects_.get_record(stream), {}, as_bytes(last_request(subjects_.record(stream))),
        [answered, store = subjects_.record_store(stream)](const Result<NatsMessage>& message) {
          answered(message ? sequence_in(*message, store) : tl::unexpected(message.error()));
        });
  });
}

std::unique_ptr<Subscription> JetstreamCourier::read(const std::string& stream, uint64_t first,
                                                     Take take) {
  check_courier_name("a stream", stream);
  auto listener = std::make_shared<Reading>(std::move(take));
  thread_.post([this, stream, first, listener] {
    const uint64_t number = connection_->subscribe(subjects_.stored_record(stream));
    readers_.emplace(number, Reader{stream, RecordReader(first), listener, 0});
    ask_records(number);
  });
  return std::make_unique<ListenerSubscription<Reading>>(listener, [this, listener] {
    thread_.post([this, listener] {
      const auto own =
          std::ranges::find(readers_, listener, [](auto& one) { return one.second.listener; });
      if (own == readers_.end()) return;
      connection_->unsubscribe(own->first);
      readers_.erase(own);
    });
  });
}

void JetstreamCourier::store(uint64_t ticket, const Chunk& chunk) {
  ask(subjects_.chunk(self(), to_hex(chunk.name)), {}, chunk.bytes,
      [this, ticket](const Result<NatsMessage>& message) {
        const auto stored = parsed(message, parse_store_answer);
        transfers_.stored(monotonic_seconds(), ticket,
                          stored ? Result<void>() : tl::unexpected(stored.error()));
      });
}

void JetstreamCourier::fetch(uint64_t ticket, const Sha256& name, const std::string& holder) {
  ask(subjects_.get_chunk(holder, to_hex(name)), {}, {},
      [this, ticket, name, holder](Result<NatsMessage> message) {
        Result<Bytes> chunk;
        if (!message) {
          chunk = tl::unexpected(message.error());
        } else if (is_missing(*message)) {
          chunk =
              fail(FailureKind::kLostPeer, fmt::format("{} has no chunk {}", holder, to_hex(name)));
        } else {
          chunk = std::move(message->body);
        }
        transfers_.fetched(monotonic_seconds(), ticket, std::move(chunk));
      });
}

void JetstreamCourier::ask(const std::string& subject, const std::vector<NatsHeader>& headers,
                           std::span<const uint8_t> body, Answer answer_to) {
  const uint64_t number = ++last_number_;
  const double deadline = monotonic_seconds() + options_.target.timeout_s;
  pending_.emplace(number, Pending{subject, deadline, std::move(answer_to)});
  // Posted, because answers must not come before this call has returned.
  const auto refuse = [this, number](const Failure& failure) {
    thread_.post([this, number, failure] { answer(number, tl::unexpected(failure)); });
  };
  if (shut_out_) return refuse(*shut_out_);
  if (!connected_) return;
  const std::string reply = inbox_ + "." + std::to_string(number);
  const Result<void> sent = connection_->publish(subject, reply, headers, body);
  if (!sent && sent.error().kind == FailureKind::kRefused) refuse(sent.error());
}

void JetstreamCourier::answer(uint64_t number, Result<NatsMessage> result) {
  auto waiting = pending_.extract(number);
  if (!waiting.empty()) waiting.mapped().answer(std::move(result));
}

void JetstreamCourier::fail_pending(const Failure& failure,
                                    const std::function<bool(const Pending&)>& which) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, pending] : pending_) {
    if (which(pending)) numbers.push_back(number);
  }
  for (const uint64_t number : numbers) answer(number, tl::unexpected(failure));
}

void JetstreamCourier::take_message(NatsMessage message) {
  if (message.subscription == inbox_number_) {
    const auto number = number_of(message.subject);
    if (!number) return;
    if (has_status(message, "503")) {
      return answer(*number, fail(FailureKind::kLostPeer, "no server has the stores of this run"));
    }
    return answer(*number, std::move(message));
  }
  if (const auto hearer = hearers_.find(message.subscription); hearer != hearers_.end()) {
    const std::shared_ptr<Hearing> listener = hearer->second;
    listener->call(speaker_of(message), std::move(message.body));
    return;
  }
  const auto reader = readers_.find(message.subscription);
  if (reader == readers_.end()) return;
  take_record(reader->second, std::move(message));
  ask_records(reader->first);
}

void JetstreamCourier::take_record(Reader& reader, NatsMessage message) {
  const auto sequence = announced_sequence(message, subjects_.record_store(reader.stream));
  if (!sequence) return reader.reader.look_again();
  reader.reader.heard(*sequence, std::move(message.body));
}

// Hands out what is there and asks for more.
void JetstreamCourier::ask_records(uint64_t number) {
  const auto found = readers_.find(number);
  if (found == readers_.end()) return;
  Reader& reader = found->second;
  reader.poll_at = monotonic_seconds() + kPollShare * options_.target.timeout_s;
  while (auto record = reader.reader.take()) {
    reader.listener->call(record->first, std::move(record->second));
  }
  while (const auto sequence = reader.reader.next_to_ask()) {
    ask(subjects_.get_record(reader.stream), {}, as_bytes(get_request(*sequence)),
        [this, number, sequence = *sequence](Result<NatsMessage> message) {
          const auto still = readers_.find(number);
          if (still == readers_.end()) return;
          RecordReader& records = still->second.reader;
          // Without an answer, it is asked for again when the reader looks next.
          if (!message) return records.unanswered(sequence);
          if (is_missing(*message)) {
            records.missing(sequence);
          } else {
            records.found(sequence, std::move(message->body));
          }
          ask_records(number);
        });
  }
}

void JetstreamCourier::link_changed(bool connected) {
  connected_ = connected;
  if (!connected) return;
  transfers_.resend(monotonic_seconds());
  for (auto& [number, reader] : readers_) {
    reader.reader.start_again();
    ask_records(number);
  }
}

void JetstreamCourier::server_refused(const std::string& text) {
  // Permissions Violation for Publish to "SUBJECT"
  fail_pending({FailureKind::kRefused, "the server says: " + text}, [&](const Pending& pending) {
    return text.find("\"" + pending.subject + "\"") != std::string::npos;
  });
}

void JetstreamCourier::be_shut_out(const std::string& text) {
  connected_ = false;
  shut_out_ = {FailureKind::kRefused, "the server no longer admits this member: " + text};
  fail_pending(*shut_out_, [](const Pending&) { return true; });
}

void JetstreamCourier::expire(double now) {
  const Failure late{FailureKind::kDeadline,
                     fmt::format("the server did not answer in {:g} s", options_.target.timeout_s)};
  fail_pending(late, [&](const Pending& pending) { return pending.deadline <= now; });
  transfers_.expire(now);
  for (auto& [number, reader] : readers_) {
    if (reader.poll_at > now) continue;
    reader.reader.look_again();
    ask_records(number);
  }
}

double JetstreamCourier::after_task() {
  const double now = monotonic_seconds();
  expire(now);
  for (const auto& call : transfers_.take_answers()) call();
  double next = transfers_.next_deadline();
  for (const auto& [number, pending] : pending_) next = std::min(next, pending.deadline);
  for (const auto& [number, reader] : readers_) next = std::min(next, reader.poll_at);
  return next;
}

}  // namespace

Result<std::unique_ptr<Courier>> connect_nats_courier(const NatsOptions& options) {
  check_courier_name("a run", options.run);
  check_courier_name("a participant", options.self);
  auto courier = std::make_unique<JetstreamCourier>(options);
  if (auto opened = courier->open(); !opened) return tl::unexpected(opened.error());
  return courier;
}

}  // namespace thinwire::transport

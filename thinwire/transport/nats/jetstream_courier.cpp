#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/mutex.h"
#include "thinwire/transport/courier/blob_transfers.h"
#include "thinwire/transport/courier/listener.h"
#include "thinwire/transport/courier/stream_reader.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/nats_answers.h"
#include "thinwire/transport/nats/nats_requests.h"
#include "thinwire/transport/task_thread.h"

namespace thinwire::transport {
namespace {

constexpr double kPollShare = 0.25;  // of the time-out: how often a reader asks for what it missed
// Where each site has a server of its own, no other one takes over its stores, but it may be being
// started again.
constexpr double kSiteAwaySeconds = 5;

using StatementListener = Listener<const std::string&, Bytes>;
using Reading = Listener<uint64_t, Bytes>;

std::string or_all(const std::string& name) { return name.empty() ? "*" : name; }

// Everything below `thread_` belongs to that thread.
class JetstreamCourier final : public Courier, private ChunkWire {
 public:
  explicit JetstreamCourier(const NatsOptions& options)
      : options_(options),
        subjects_(options.run, options.sites),
        requests_(NatsSubjects::fresh_inbox(options.self), options.target.timeout_s),
        line_(options.limits),
        transfers_(*this, options.target.timeout_s, options.max_blob_bytes, &line_),
        stores_(subjects_,
                [this](const std::string& subject, const std::string& request,
                       NatsRequests::Answer answer) { ask(subject, request, std::move(answer)); }),
        thread_([this] { return after_task(); }) {}
  ~JetstreamCourier() override;
  JetstreamCourier(const JetstreamCourier&) = delete;
  JetstreamCourier& operator=(const JetstreamCourier&) = delete;

  Result<void> open();

  const std::string& self() const override { return options_.self; }
  bool connected() const override { return connected_; }
  std::string denied() const override {
    const Lock lock(denied_mutex_);
    return denied_;
  }
  BlobId put(std::shared_ptr<const Bytes> blob, Priority priority, Done done) override {
    return post_put(thread_, transfers_, std::move(blob), priority, std::move(done));
  }
  void get_part(const Sha256& blob, const BlobId& part, std::vector<std::string> holders,
                Priority priority, Got got) override {
    post_get(thread_, transfers_, blob, part, std::move(holders), priority, std::move(got));
  }
  void drop(const Sha256& blob, const std::string& holder, Done done) override;
  void count(Counted counted) override;
  void list(const std::string& holder, Listed listed) override;
  void place(const std::string& holder, const std::string& site, const Done& done) override;
  void publish(const std::string& topic, Bytes statement) override;
  std::unique_ptr<Subscription> subscribe(const std::string& from, const std::string& topic,
                                          OnStatement on_statement) override;
  void append(const std::string& stream, uint64_t expected_last, Bytes record,
              Appended appended) override;
  void last(const std::string& stream, Appended answered) override;
  std::unique_ptr<Subscription> read(const std::string& stream, uint64_t first, Take take) override;

 private:
  struct Reader {
    std::string stream;
    StreamReader reader;
    std::shared_ptr<Reading> listener;
    double poll_at;
  };

  void store(uint64_t ticket, const Chunk& chunk) override;
  void fetch(uint64_t ticket, const ChunkKey& key, const std::string& holder) override;
  Result<void> send(const std::string& subject, const std::string& reply,
                    const std::vector<NatsHeader>& headers, std::span<const uint8_t> body);
  void ask(const std::string& subject, const std::string& question, NatsRequests::Answer answer,
           Repeat repeat = Repeat::kQuestion);
  void take_message(NatsMessage message);
  void take_record(Reader& reader, NatsMessage message);
  void ask_records(uint64_t number);
  void link_changed(bool connected);
  void resend();
  void be_denied(const std::string& text);
  double after_task();
  void expire(double now);
  void close();

  const NatsOptions options_;
  const NatsSubjects subjects_;
  std::atomic<bool> connected_ = false;
  mutable Mutex denied_mutex_;
  std::string denied_ GUARDED_BY(denied_mutex_);

  std::unique_ptr<NatsConnection> connection_;
  NatsRequests requests_;
  LineLimit line_;
  BlobTransfers transfers_;
  ChunkStores stores_;
  uint64_t inbox_number_ = 0;                                         // of its subscription
  uint64_t elected_number_ = 0;                                       // likewise
  std::map<uint64_t, std::shared_ptr<StatementListener>> listeners_;  // by subscription
  std::map<uint64_t, Reader> readers_;                                // by subscription
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
  requests_.fail_all(closed);
  listeners_.clear();
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
      [this, post](const std::string& text) { post([this, text] { requests_.refused(text); }); },
      [this, post](const std::string& text) { post([this, text] { be_denied(text); }); }};
  auto connection = connect_nats(options_.target, std::move(events));
  if (!connection) return tl::unexpected(connection.error());
  connected_ = true;
  const auto shared = std::make_shared<std::unique_ptr<NatsConnection>>(std::move(*connection));
  post([this, shared] {
    connection_ = std::move(*shared);
    inbox_number_ = connection_->subscribe(requests_.inbox() + ".*");
    elected_number_ = connection_->subscribe(NatsSubjects::elected("*"));
  });
  return {};
}

void JetstreamCourier::drop(const Sha256& blob, const std::string& holder, Done done) {
  check_courier_name("a holder", holder);
  thread_.post([this, blob, holder, done = std::move(done)] { stores_.drop(blob, holder, done); });
}

void JetstreamCourier::count(Counted counted) {
  thread_.post([this, counted = std::move(counted)] { stores_.count(counted); });
}

void JetstreamCourier::list(const std::string& holder, Listed listed) {
  check_courier_name("a holder", holder);
  thread_.post([this, holder, listed = std::move(listed)] { stores_.list(holder, listed); });
}

void JetstreamCourier::place(const std::string& holder, const std::string& site, const Done& done) {
  check_courier_name("a holder", holder);
  thread_.post([this, holder, site, done] { stores_.place(holder, site, done); });
}

void JetstreamCourier::publish(const std::string& topic, Bytes statement) {
  check_message("a topic", topic, statement.size());
  const auto body = std::make_shared<const Bytes>(std::move(statement));
  thread_.post([this, topic, body] {
    // What cannot be sent at the moment is lost, as statements may be.
    if (connected_) (void)send(subjects_.statement(self(), topic), "", {}, *body);
  });
}

std::unique_ptr<Subscription> JetstreamCourier::subscribe(const std::string& from,
                                                          const std::string& topic,
                                                          OnStatement on_statement) {
  auto listener = std::make_shared<StatementListener>(std::move(on_statement));
  std::string announced = subjects_.statement(or_all(from), or_all(topic));
  if (from == kServerParticipant && topic == kArrivalTopic) announced = NatsSubjects::arrivals();
  if (from == kServerParticipant && topic == kDepartureTopic)
    announced = NatsSubjects::departures();
  thread_.post([this, subject = std::move(announced), listener] {
    listeners_.emplace(connection_->subscribe(subject), listener);
  });
  return std::make_unique<ListenerSubscription<StatementListener>>(listener, [this, listener] {
    thread_.post([this, listener] {
      const auto own = std::ranges::find(listeners_, listener, [](auto& it) { return it.second; });
      if (own == listeners_.end()) return;
      connection_->unsubscribe(own->first);
      listeners_.erase(own);
    });
  });
}

void JetstreamCourier::append(const std::string& stream, uint64_t expected_last, Bytes record,
                              Appended appended) {
  check_message("a stream", stream, record.size());
  const auto added = std::make_shared<const Bytes>(std::move(record));
  thread_.post([this, stream, expected_last, added, appended = std::move(appended)] {
    const std::string subject = subjects_.record(stream);
    const NatsHeader expected{"Nats-Expected-Last-Sequence", std::to_string(expected_last)};
    requests_.ask(
        monotonic_seconds(),
        {.subject = subject,
         .send = [this, subject, expected, added](
                     const std::string& reply) { return send(subject, reply, {expected}, *added); },
         .answer =
             [appended](const Result<NatsMessage>& message) {
               appended(parsed(message, parse_store_answer));
             },
         .repeat = Repeat::kAppend});
  });
}

void JetstreamCourier::last(const std::string& stream, Appended answered) {
  check_courier_name("a stream", stream);
  thread_.post([this, stream, answered = std::move(answered)] {
    // Asks the server that leads the store: others may not have its last records yet.
    ask(subjects_.info(subjects_.record_store(stream)), "",
        [answered](const Result<NatsMessage>& message) {
          answered(parsed(message, parse_last_sequence));
        });
  });
}

std::unique_ptr<Subscription> JetstreamCourier::read(const std::string& stream, uint64_t first,
                                                     Take take) {
  check_courier_name("a stream", stream);
  auto listener = std::make_shared<Reading>(std::move(take));
  thread_.post([this, stream, first, listener] {
    const uint64_t number = connection_->subscribe(subjects_.stored_record(stream));
    readers_.emplace(number, Reader{stream, StreamReader(first), listener, 0});
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
  const std::string subject = subjects_.chunk(self(), print_key(chunk.key, '.'));
  const auto send = [this, ticket, subject](const std::string& reply) -> Result<void> {
    const Chunk* const still = transfers_.storing(ticket);
    return still == nullptr ? Result<void>() : this->send(subject, reply, {}, still->bytes);
  };
  requests_.ask(monotonic_seconds(),
                {.subject = subject,
                 .send = send,
                 .answer =
                     [this, ticket](const Result<NatsMessage>& message) {
                       const auto stored = parsed(message, parse_store_answer);
                       transfers_.stored(monotonic_seconds(), ticket,
                                         stored ? Result<void>() : tl::unexpected(stored.error()));
                     },
                 .repeat = Repeat::kNever});
}

void JetstreamCourier::fetch(uint64_t ticket, const ChunkKey& key, const std::string& holder) {
  const std::string subject = subjects_.get_chunk(holder, print_key(key, '.'));
  const auto send = [this, ticket, subject](const std::string& reply) -> Result<void> {
    if (!transfers_.fetching(ticket)) return {};
    return this->send(subject, reply, {}, {});
  };
  const auto take = [this, ticket, name = key.chunk, holder](Result<NatsMessage> message) {
    Result<Bytes> chunk;
    if (!message) {
      chunk = tl::unexpected(message.error());
    } else if (is_missing(*message)) {
      chunk = fail(FailureKind::kLostPeer, fmt::format("{} has no chunk {}", holder, to_hex(name)));
    } else {
      chunk = std::move(message->body);
    }
    transfers_.fetched(monotonic_seconds(), ticket, std::move(chunk));
  };
  NatsRequests::Request request{.subject = subject,
                                .send = send,
                                .answer = take,
                                .repeat = Repeat::kChunk,
                                .settle_s = options_.settle_s};
  if (subjects_.sites()) request.unserved_s = kSiteAwaySeconds;
  requests_.ask(monotonic_seconds(), std::move(request));
}

void JetstreamCourier::ask(const std::string& subject, const std::string& question,
                           NatsRequests::Answer answer, Repeat repeat) {
  const auto send = [this, subject, question](const std::string& reply) {
    return this->send(subject, reply, {}, as_bytes(question));
  };
  requests_.ask(monotonic_seconds(),
                {.subject = subject, .send = send, .answer = std::move(answer), .repeat = repeat});
}

// All that it sends goes through here, and all that it receives through take_message.
Result<void> JetstreamCourier::send(const std::string& subject, const std::string& reply,
                                    const std::vector<NatsHeader>& headers,
                                    std::span<const uint8_t> body) {
  line_.sent(monotonic_seconds(), body.size());
  return connection_->publish(subject, reply, headers, body);
}

void JetstreamCourier::take_message(NatsMessage message) {
  line_.received(monotonic_seconds(), message.body.size());
  if (message.subscription == inbox_number_) {
    return requests_.take(monotonic_seconds(), std::move(message));
  }
  if (message.subscription == elected_number_) {
    // What was in flight to the previous leader is lost.
    if (is_election(message)) resend();
    return;
  }
  if (const auto found = listeners_.find(message.subscription); found != listeners_.end()) {
    const std::shared_ptr<StatementListener> listener = found->second;
    return listener->call(author_of_message(message), std::move(message.body));
  }
  const auto reader = readers_.find(message.subscription);
  if (reader == readers_.end()) return;
  take_record(reader->second, std::move(message));
  ask_records(reader->first);
}

void JetstreamCourier::take_record(Reader& reader, NatsMessage message) {
  const auto sequence = announced_sequence(message, subjects_.record_store(reader.stream));
  if (!sequence) return reader.reader.expect_more();
  reader.reader.announced(*sequence, std::move(message.body));
}

// Delivers the records that have arrived and requests more.
void JetstreamCourier::ask_records(uint64_t number) {
  const auto found = readers_.find(number);
  if (found == readers_.end()) return;
  Reader& reader = found->second;
  reader.poll_at = monotonic_seconds() + kPollShare * options_.target.timeout_s;
  while (auto record = reader.reader.take()) {
    reader.listener->call(record->first, std::move(record->second));
  }
  while (const auto sequence = reader.reader.next_to_ask()) {
    const auto take = [this, number, sequence = *sequence](Result<NatsMessage> message) {
      const auto still = readers_.find(number);
      if (still == readers_.end()) return;
      StreamReader& records = still->second.reader;
      // Without an answer, it is requested again at the reader's next poll.
      if (!message) return records.unanswered(sequence);
      if (is_missing(*message)) {
        records.missing(sequence);
      } else {
        records.found(sequence, std::move(message->body));
      }
      ask_records(number);
    };
    ask(subjects_.get_record(reader.stream), get_request(*sequence), take, Repeat::kRecord);
  }
}

void JetstreamCourier::link_changed(bool connected) {
  connected_ = connected;
  requests_.link(connected);
  if (connected) resend();
}

void JetstreamCourier::resend() {
  requests_.send_lost(monotonic_seconds());
  transfers_.resend(monotonic_seconds());
  for (auto& [number, reader] : readers_) {
    reader.reader.forget_requests();
    ask_records(number);
  }
}

void JetstreamCourier::be_denied(const std::string& text) {
  connected_ = false;
  const std::string why = "the run's server no longer admits it: " + text;
  {
    const Lock lock(denied_mutex_);
    denied_ = why;
  }
  requests_.fail_all({FailureKind::kRefused, why});
}

void JetstreamCourier::expire(double now) {
  requests_.expire(now);
  transfers_.expire(now);
  for (auto& [number, reader] : readers_) {
    if (reader.poll_at > now) continue;
    reader.reader.expect_more();
    ask_records(number);
  }
}

double JetstreamCourier::after_task() {
  const double now = monotonic_seconds();
  expire(now);
  for (const auto& call : transfers_.take_answers()) call();
  double next = std::min(transfers_.next_deadline(), requests_.next());
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

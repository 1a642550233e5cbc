#include "thinwire/transport/mailbox/courier_mailbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/transport/courier/blob_transfers.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/courier/listener.h"
#include "thinwire/transport/mailbox/mailbox_files.h"
#include "thinwire/transport/mailbox/mailbox_place.h"
#include "thinwire/transport/task_thread.h"

namespace thinwire::transport {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr double kPollShare = 30;   // times what a look into the folder takes, until the next
constexpr double kLongestPoll = 1;  // seconds
constexpr int kRecordsAtOnce = 64;  // that a reader takes before others have their turn

using StatementListener = Listener<const std::string&, Bytes>;
using Reading = Listener<uint64_t, Bytes>;

uint64_t unix_us() { return static_cast<uint64_t>(unix_seconds() * 1e6); }

Failure closed() { return {FailureKind::kAborted, "the courier was closed"}; }

// Everything below `connected_` belongs to the thread.
class MailboxCourier final : public Courier, private ChunkWire {
 public:
  explicit MailboxCourier(const MailboxOptions& options)
      : options_(options),
        place_(options.folder, options.run, options.self),
        transfers_(*this, options.timeout_s, options.max_blob_bytes),
        records_(place_, options.coordinator),
        outbox_(place_, kStatementFolder, options.kept_statements),
        inbox_(place_, kStatementFolder),
        drops_(place_, options.coordinator),
        thread_([this] { return after_task(); }) {}
  ~MailboxCourier() override;
  MailboxCourier(const MailboxCourier&) = delete;
  MailboxCourier& operator=(const MailboxCourier&) = delete;

  const std::string& self() const override { return options_.self; }
  bool connected() const override { return connected_; }
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
  void publish(const std::string& topic, Bytes statement) override;
  std::unique_ptr<Subscription> subscribe(const std::string& from, const std::string& topic,
                                          OnStatement on_statement) override;
  void append(const std::string& stream, uint64_t expected_last, Bytes record,
              Appended appended) override;
  void last(const std::string& stream, Appended answered) override;
  std::unique_ptr<Subscription> read(const std::string& stream, uint64_t first, Take take) override;

 private:
  struct Subscriber {
    std::string from, topic;
    std::shared_ptr<StatementListener> listener;
    bool wants(const std::string& author, const std::string& what) const {
      return (from.empty() || from == author) && (topic.empty() || topic == what);
    }
  };
  struct Reader {
    std::string stream;
    uint64_t next;
    std::shared_ptr<Reading> listener;
  };
  struct Fetch {
    uint64_t ticket;
    ChunkKey key;
    std::string holder;
    double until;  // it counts as missing
  };
  // A request that waits for the folder to be there again.
  struct Waiting {
    std::function<Result<uint64_t>()> act;
    Appended answered;
    double until;
  };

  void store(uint64_t ticket, const Chunk& chunk) override;
  void fetch(uint64_t ticket, const ChunkKey& key, const std::string& holder) override;
  bool try_store(uint64_t ticket);
  bool try_fetch(const Fetch& fetch);
  void ask(std::function<Result<uint64_t>()> act, Appended answered);
  bool try_request(const Waiting& request);
  void note_writing(const Result<void>& written, size_t bytes);
  void take_statements();
  void take_records();
  void poll_soon() { poll_at_ = 0; }
  void poll();
  void look();
  double after_task();
  void close();

  const MailboxOptions options_;
  const MailboxPlace place_;
  std::atomic<bool> connected_ = true;

  BlobTransfers transfers_;
  RecordFiles records_;
  StatementOutbox outbox_;
  StatementInbox inbox_;
  DropRequests drops_;
  std::deque<uint64_t> stores_;            // by ticket, to be tried again
  std::deque<Fetch> fetches_;              // likewise
  std::deque<Waiting> requests_;           // likewise
  std::optional<size_t> unwritten_bytes_;  // of the shortest that the folder did not take
  uint64_t last_number_ = 0;
  std::map<uint64_t, Subscriber> subscribers_;
  std::map<uint64_t, Reader> readers_;
  double poll_at_ = 0;
  TaskThread thread_;
};

MailboxCourier::~MailboxCourier() {
  thread_.post([this] { close(); });
}

void MailboxCourier::close() {
  connected_ = false;
  transfers_.close(closed());
  for (const Waiting& request : std::exchange(requests_, {})) {
    request.answered(tl::unexpected(closed()));
  }
  drops_.write(unix_us());
  subscribers_.clear();
  readers_.clear();
  if (options_.leaves_nothing) place_.remove_own();
}

void MailboxCourier::drop(const Sha256& blob, const std::string& holder, Done done) {
  check_courier_name("a holder", holder);
  const auto act = [this, blob, holder]() -> Result<uint64_t> {
    const Result<void> removed =
        holder == self() ? remove_blob(place_, blob) : drops_.add(holder, blob);
    if (!removed) return tl::unexpected(removed.error());
    return 0;
  };
  ask(act, [done = std::move(done)](const Result<uint64_t>& result) {
    if (!result) return done(tl::unexpected(result.error()));
    done({});
  });
}

void MailboxCourier::count(Counted counted) {
  const auto act = [this]() -> Result<uint64_t> {
    uint64_t chunks = 0;
    for (const std::string& holder : place_.participants()) {
      for (const StoredBlob& blob : list_blobs(place_, holder)) chunks += blob.chunks;
    }
    return chunks;
  };
  ask(act, std::move(counted));
}

void MailboxCourier::list(const std::string& holder, Listed listed) {
  check_courier_name("a holder", holder);
  const auto blobs = std::make_shared<std::vector<StoredBlob>>();
  const auto act = [this, holder, blobs]() -> Result<uint64_t> {
    *blobs = list_blobs(place_, holder);
    return blobs->size();
  };
  ask(act, [blobs, listed = std::move(listed)](const Result<uint64_t>& size) {
    if (!size) return listed(tl::unexpected(size.error()));
    listed(std::move(*blobs));
  });
}

void MailboxCourier::publish(const std::string& topic, Bytes statement) {
  check_message("a topic", topic, statement.size());
  thread_.post([this, topic, said = std::move(statement)] {
    // What cannot be written at the moment is lost, as statements may be.
    note_writing(outbox_.write(topic, said, unix_us()), said.size());
    poll_soon();
  });
}

std::unique_ptr<Subscription> MailboxCourier::subscribe(const std::string& from,
                                                        const std::string& topic,
                                                        OnStatement on_statement) {
  auto listener = std::make_shared<StatementListener>(std::move(on_statement));
  thread_.post([this, from, topic, listener] {
    take_statements();  // what is there already is not for it
    subscribers_.emplace(++last_number_, Subscriber{from, topic, listener});
  });
  return std::make_unique<ListenerSubscription<StatementListener>>(listener, [this, listener] {
    thread_.post([this, listener] {
      std::erase_if(subscribers_, [&](auto& one) { return one.second.listener == listener; });
    });
  });
}

void MailboxCourier::append(const std::string& stream, uint64_t expected_last, Bytes record,
                            Appended appended) {
  check_message("a stream", stream, record.size());
  const auto act = [this, stream, expected_last, added = std::move(record)] {
    poll_soon();
    Result<uint64_t> sequence = records_.append(stream, expected_last, added);
    if (self() == options_.coordinator) {
      note_writing(sequence ? Result<void>() : tl::unexpected(sequence.error()), added.size());
    }
    return sequence;
  };
  ask(act, std::move(appended));
}

void MailboxCourier::last(const std::string& stream, Appended answered) {
  check_courier_name("a stream", stream);
  ask([this, stream] { return records_.last(stream); }, std::move(answered));
}

std::unique_ptr<Subscription> MailboxCourier::read(const std::string& stream, uint64_t first,
                                                   Take take) {
  check_courier_name("a stream", stream);
  auto listener = std::make_shared<Reading>(std::move(take));
  thread_.post([this, stream, first, listener] {
    readers_.emplace(++last_number_, Reader{stream, first, listener});
    poll_soon();
  });
  return std::make_unique<ListenerSubscription<Reading>>(listener, [this, listener] {
    thread_.post([this, listener] {
      std::erase_if(readers_, [&](auto& one) { return one.second.listener == listener; });
    });
  });
}

void MailboxCourier::store(uint64_t ticket, const Chunk& /*chunk*/) {
  thread_.post([this, ticket] {
    if (!try_store(ticket)) stores_.push_back(ticket);
  });
}

bool MailboxCourier::try_store(uint64_t ticket) {
  const Chunk* const chunk = transfers_.storing(ticket);
  if (chunk == nullptr) return true;
  Result<void> stored = store_chunk(place_, *chunk);
  note_writing(stored, chunk->bytes.size());
  if (!stored && stored.error().kind != FailureKind::kRefused) return false;
  transfers_.stored(monotonic_seconds(), ticket, std::move(stored));
  return true;
}

// What this participant stored itself is here, or nowhere.
void MailboxCourier::fetch(uint64_t ticket, const ChunkKey& key, const std::string& holder) {
  const double until = monotonic_seconds() + (holder == self() ? 0 : options_.settle_s);
  thread_.post([this, one = Fetch{ticket, key, holder, until}] {
    if (!try_fetch(one)) fetches_.push_back(one);
  });
}

bool MailboxCourier::try_fetch(const Fetch& fetch) {
  Result<FoundChunk> found = find_chunk(place_, fetch.holder, fetch.key);
  const double now = monotonic_seconds();
  if ((!found || !found->whole) && now < fetch.until) return false;
  transfers_.fetched(
      now, fetch.ticket,
      found ? Result<Bytes>(std::move(found->bytes)) : tl::unexpected(found.error()));
  return true;
}

void MailboxCourier::ask(std::function<Result<uint64_t>()> act, Appended answered) {
  thread_.post([this, request = Waiting{std::move(act), std::move(answered),
                                        monotonic_seconds() + options_.timeout_s}] {
    if (!try_request(request)) requests_.push_back(request);
  });
}

bool MailboxCourier::try_request(const Waiting& request) {
  const Result<uint64_t> result = request.act();
  const bool unreachable = !result && (result.error().kind == FailureKind::kLostPeer ||
                                       result.error().kind == FailureKind::kDeadline);
  if (!unreachable) {
    request.answered(result);
  } else if (monotonic_seconds() < request.until) {
    return false;
  } else {
    request.answered(fail(FailureKind::kDeadline, result.error().message));
  }
  return true;
}

// A disk that takes something shorter may still be full.
void MailboxCourier::note_writing(const Result<void>& written, size_t bytes) {
  if (!options_.notice) return;
  if (written) {
    if (!unwritten_bytes_ || bytes < *unwritten_bytes_) return;
    unwritten_bytes_.reset();
    options_.notice(
        fmt::format("the mailbox {} can be written to again", options_.folder.string()));
  } else if (written.error().kind == FailureKind::kRefused) {
    const bool is_new = !unwritten_bytes_;
    unwritten_bytes_ = std::min(unwritten_bytes_.value_or(bytes), bytes);
    if (!is_new) return;
    options_.notice(fmt::format(
        "the mailbox {} cannot be written to ({}); tries again until there is room or permission",
        options_.folder.string(), written.error().message));
  }
}

void MailboxCourier::take_statements() {
  const auto wanted = [this](const std::string& author, const std::string& topic) {
    return std::ranges::any_of(subscribers_,
                               [&](auto& one) { return one.second.wants(author, topic); });
  };
  for (StatementInbox::Found& found : inbox_.take(place_.participants(), wanted)) {
    if (found.author == kServerParticipant) continue;  // there is no server that could say anything
    for (auto& [number, subscriber] : subscribers_) {
      if (subscriber.wants(found.author, found.text)) {
        subscriber.listener->call(found.author, found.content);
      }
    }
  }
}

void MailboxCourier::take_records() {
  for (auto& [number, reader] : readers_) {
    for (int taken = 0; taken < kRecordsAtOnce; ++taken) {
      Result<Bytes> record = records_.read(reader.stream, reader.next);
      if (!record) break;
      reader.listener->call(reader.next++, std::move(*record));
      if (taken + 1 == kRecordsAtOnce) poll_soon();
    }
  }
}

void MailboxCourier::poll() {
  const Stopwatch watch;
  poll_at_ = kForever;  // unless something below asks for another look at once
  connected_ = place_.usable();
  if (connected_) look();
  const double pause = std::min(kPollShare * watch.seconds(), kLongestPoll);
  poll_at_ = std::min(poll_at_, monotonic_seconds() + std::max(pause, options_.poll_s));
}

void MailboxCourier::look() {
  std::erase_if(stores_, [this](uint64_t ticket) { return try_store(ticket); });
  std::erase_if(fetches_, [this](const Fetch& one) { return try_fetch(one); });
  drops_.carry_out();
  if (!subscribers_.empty()) take_statements();
  take_records();
  drops_.write(unix_us());
  outbox_.clean(unix_us());
}

double MailboxCourier::after_task() {
  if (monotonic_seconds() >= poll_at_) poll();
  std::erase_if(requests_, [this](const Waiting& one) { return try_request(one); });
  transfers_.expire(monotonic_seconds());
  for (const auto& call : transfers_.take_answers()) call();
  return std::min(transfers_.next_deadline(), poll_at_);
}

}  // namespace

Result<std::unique_ptr<Courier>> open_mailbox_courier(const MailboxOptions& options) {
  const MailboxPlace place(options.folder, options.run, options.self);
  if (!fs::is_directory(options.folder)) {
    return fail(FailureKind::kLostPeer,
                fmt::format("there is no folder {}", options.folder.string()));
  }
  if (const auto own = place.own({}); !own) {
    return fail(FailureKind::kRefused, own.error().message);
  }
  place.remove_partial_files();
  RecordFiles(place, options.coordinator).remove_damaged();
  return std::make_unique<MailboxCourier>(options);
}

}  // namespace thinwire::transport

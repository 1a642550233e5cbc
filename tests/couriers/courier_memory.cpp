#include "tests/couriers/courier_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/couriers/memory_server.h"

namespace thinwire::transport {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

class MemoryCourier final : public Courier {
 public:
  MemoryCourier(std::shared_ptr<MemoryServer> server, std::shared_ptr<MemoryParticipant> end)
      : kept_(std::move(server)), end_(std::move(end)) {}
  ~MemoryCourier() override;
  MemoryCourier(const MemoryCourier&) = delete;
  MemoryCourier& operator=(const MemoryCourier&) = delete;

  const std::string& self() const override { return end_->name(); }
  bool connected() const override {
    const Lock lock(end_->server.mutex);
    return end_->connected();
  }
  BlobId put(std::shared_ptr<const Bytes> blob, Priority priority, Done done) override;
  void get_part(const Sha256& blob, const BlobId& part, std::vector<std::string> holders,
                Priority priority, Got got) override;
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
  // Ends what `entries` of the participant has under `number`.
  template <typename Listening, typename Entries>
  std::unique_ptr<Subscription> subscription(std::shared_ptr<Listening> listener, Entries entries,
                                             uint64_t number) {
    return std::make_unique<ListenerSubscription<Listening>>(
        std::move(listener), [kept = kept_, end = end_, entries, number] {
          const Lock lock(end->server.mutex);
          ((*end).*entries).erase(number);
        });
  }

  const std::shared_ptr<MemoryServer> kept_;  // for end_
  const std::shared_ptr<MemoryParticipant> end_;
};

MemoryCourier::~MemoryCourier() {
  std::deque<std::function<void()>> last;
  {
    const Lock lock(end_->server.mutex);
    auto others = std::exchange(end_->server.calls, {});
    end_->close();
    last = std::exchange(end_->server.calls, std::move(others));
    end_->server.participants.erase(end_->name());
  }
  for (const auto& call : last) call();
}

BlobId MemoryCourier::put(std::shared_ptr<const Bytes> blob, Priority priority, Done done) {
  auto chunks = std::make_shared<const BlobChunks>(std::move(blob));
  const Lock lock(end_->server.mutex);
  end_->transfers.put(end_->server.now, chunks, priority, std::move(done));
  end_->settle();
  return chunks->id();
}

void MemoryCourier::get_part(const Sha256& blob, const BlobId& part,
                             std::vector<std::string> holders, Priority priority, Got got) {
  const Lock lock(end_->server.mutex);
  end_->transfers.get(end_->server.now, blob, part, std::move(holders), priority, std::move(got));
  end_->settle();
}

void MemoryCourier::drop(const Sha256& blob, const std::string& holder, Done done) {
  const Lock lock(end_->server.mutex);
  const auto act = [blob, holder](MemoryServer& server) REQUIRES(server.mutex) -> Result<uint64_t> {
    server.drop(holder, blob);
    return 0;
  };
  end_->ask(0, act, [done = std::move(done)](const Result<uint64_t>& result) {
    if (!result) return done(tl::unexpected(result.error()));
    done({});
  });
}

void MemoryCourier::count(Counted counted) {
  const Lock lock(end_->server.mutex);
  const auto act = [](MemoryServer& server)
                       REQUIRES(server.mutex) -> Result<uint64_t> { return server.chunks.size(); };
  end_->ask(0, act, std::move(counted));
}

void MemoryCourier::list(const std::string& holder, Listed listed) {
  check_courier_name("a holder", holder);
  const Lock lock(end_->server.mutex);
  const auto blobs = std::make_shared<std::vector<StoredBlob>>();
  const auto act = [holder, blobs](MemoryServer& server)
                       REQUIRES(server.mutex) -> Result<uint64_t> {
    *blobs = server.list(holder);
    return blobs->size();
  };
  end_->ask(0, act, [blobs, listed = std::move(listed)](const Result<uint64_t>& size) {
    if (!size) return listed(tl::unexpected(size.error()));
    listed(std::move(*blobs));
  });
}

void MemoryCourier::publish(const std::string& topic, Bytes statement) {
  check_message("a topic", topic, statement.size());
  const Lock lock(end_->server.mutex);
  MemoryServer* const server = &end_->server;
  const size_t bytes = statement.size();
  end_->send(bytes, [server, from = self(), topic, sent = std::move(statement)]()
                        REQUIRES(server->mutex) { server->broadcast(from, topic, sent); });
}

std::unique_ptr<Subscription> MemoryCourier::subscribe(const std::string& from,
                                                       const std::string& topic,
                                                       OnStatement on_statement) {
  auto listener = std::make_shared<MemoryParticipant::StatementListener>(std::move(on_statement));
  const Lock lock(end_->server.mutex);
  const uint64_t number = ++end_->server.last_event;
  end_->subscribers.emplace(number, MemoryParticipant::StatementSubscriber{from, topic, listener});
  return subscription(std::move(listener), &MemoryParticipant::subscribers, number);
}

void MemoryCourier::append(const std::string& stream, uint64_t expected_last, Bytes record,
                           Appended appended) {
  check_message("a stream", stream, record.size());
  const Lock lock(end_->server.mutex);
  const size_t bytes = record.size();
  const auto act =
      [stream, expected_last, added = std::move(record)](MemoryServer& server)
          REQUIRES(server.mutex) { return server.append(stream, expected_last, added); };
  end_->ask(bytes, act, std::move(appended));
}

void MemoryCourier::last(const std::string& stream, Appended answered) {
  check_message("a stream", stream, 0);
  const Lock lock(end_->server.mutex);
  const auto act = [stream](MemoryServer& server) REQUIRES(server.mutex) -> Result<uint64_t> {
    return server.streams[stream].size();
  };
  end_->ask(0, act, std::move(answered));
}

std::unique_ptr<Subscription> MemoryCourier::read(const std::string& stream, uint64_t first,
                                                  Take take) {
  auto listener = std::make_shared<MemoryParticipant::Reading>(std::move(take));
  const Lock lock(end_->server.mutex);
  const uint64_t number = ++end_->server.last_event;
  end_->readers.emplace(number, MemoryParticipant::Reader{stream, first, listener});
  end_->catch_up(stream, first);
  return subscription(std::move(listener), &MemoryParticipant::readers, number);
}

}  // namespace

MemoryNetwork::MemoryNetwork(const MemoryOptions& options)
    : server_(std::make_shared<MemoryServer>(options)) {}

MemoryNetwork::~MemoryNetwork() = default;

std::unique_ptr<Courier> MemoryNetwork::connect(const std::string& name, const links::Link& link) {
  check_courier_name("a participant", name);
  const Lock lock(server_->mutex);
  auto end = std::make_shared<MemoryParticipant>(*server_, name, link);
  if (!server_->participants.emplace(name, end).second) {
    throw Error(fmt::format("participant {} is connected already", name));
  }
  return std::make_unique<MemoryCourier>(server_, std::move(end));
}

double MemoryNetwork::now() const {
  const Lock lock(server_->mutex);
  return server_->now;
}

bool MemoryNetwork::step() { return server_->step(kForever); }

void MemoryNetwork::run_until(double time) {
  while (server_->step(time)) continue;
  const Lock lock(server_->mutex);
  server_->now = std::max(server_->now, time);
}

void MemoryNetwork::run() {
  while (step()) continue;
}

void MemoryNetwork::call_at(double time, std::function<void()> call) {
  const Lock lock(server_->mutex);
  MemoryServer* const server = server_.get();
  server_->at(time, [server, call = std::move(call)]()
                        REQUIRES(server->mutex) { server->calls.push_back(call); });
}

void MemoryNetwork::disconnect(const std::string& name) {
  const Lock lock(server_->mutex);
  MemoryParticipant& participant = *server_->participants.at(name);
  participant.is_at(*server_);
  participant.disconnect();
}

void MemoryNetwork::reconnect(const std::string& name) {
  const Lock lock(server_->mutex);
  MemoryParticipant& participant = *server_->participants.at(name);
  participant.is_at(*server_);
  participant.reconnect();
}

void MemoryNetwork::set_disk_bytes(uint64_t bytes) {
  const Lock lock(server_->mutex);
  server_->disk_bytes = bytes;
}

void MemoryNetwork::lose_records(const std::string& stream, size_t count) {
  const Lock lock(server_->mutex);
  server_->lose_records(stream, count);
}

bool MemoryNetwork::alter_chunk(const std::string& holder, const Sha256& name) {
  const Lock lock(server_->mutex);
  const auto chunk = std::ranges::find_if(server_->chunks, [&](const auto& one) {
    return one.first.first == holder && one.first.second.chunk == name;
  });
  if (chunk == server_->chunks.end() || chunk->second.empty()) return false;
  chunk->second.front() ^= 1;
  return true;
}

}  // namespace thinwire::transport

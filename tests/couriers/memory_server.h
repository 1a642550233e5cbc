// The internals of a MemoryNetwork (courier_memory.h): its events, its server, and the ends of its
// connections. Events run with the server's mutex held; users' callbacks wait in `calls` and run
// without it.
#pragma once

#include <cassert>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/couriers/courier_memory.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/rng.h"
#include "thinwire/transport/courier/blob_transfers.h"
#include "thinwire/transport/courier/listener.h"
#include "thinwire/transport/pacer.h"

namespace thinwire::transport {

class MemoryParticipant;

struct MemoryServer {
  using Moment = std::pair<double, uint64_t>;  // time, number

  explicit MemoryServer(const MemoryOptions& with) : options(with), rng(with.seed, 1) {}

  Moment at(double time, std::function<void()> event) REQUIRES(mutex);
  // Runs the calls that are waiting, or else the next event no later than `until`; false: there was
  // neither.
  bool step(double until) EXCLUDES(mutex);

  Result<void> store(const std::string& holder, const Chunk& chunk) REQUIRES(mutex);
  void drop(const std::string& holder, const Sha256& blob) REQUIRES(mutex);
  Result<Bytes> find(const std::string& holder, const ChunkKey& key) REQUIRES(mutex);
  std::vector<StoredBlob> list(const std::string& holder) const REQUIRES(mutex);
  Result<uint64_t> append(const std::string& stream, uint64_t expected_last, const Bytes& record)
      REQUIRES(mutex);
  // The last `count` records of a stream, or all it has.
  void lose_records(const std::string& stream, size_t count) REQUIRES(mutex);
  void broadcast(const std::string& author, const std::string& topic, const Bytes& statement)
      REQUIRES(mutex);

  const MemoryOptions options;
  Mutex mutex;
  Rng rng GUARDED_BY(mutex);
  double now GUARDED_BY(mutex) = 0;
  uint64_t last_event GUARDED_BY(mutex) = 0;
  std::map<Moment, std::function<void()>> events GUARDED_BY(mutex);
  std::deque<std::function<void()>> calls GUARDED_BY(mutex);
  std::map<std::string, std::shared_ptr<MemoryParticipant>> participants GUARDED_BY(mutex);
  // By holder and key.
  std::map<std::pair<std::string, ChunkKey>, Bytes> chunks GUARDED_BY(mutex);
  std::map<std::string, std::vector<Bytes>> streams GUARDED_BY(mutex);
  uint64_t used_bytes GUARDED_BY(mutex) = 0;
  uint64_t disk_bytes GUARDED_BY(mutex) = std::numeric_limits<uint64_t>::max();
};

// One end of a connection, with what its courier has in flight.
class MemoryParticipant final : public ChunkWire {
 public:
  using StatementListener = Listener<const std::string&, Bytes>;
  using Reading = Listener<uint64_t, Bytes>;
  struct StatementSubscriber {
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

  MemoryParticipant(MemoryServer& at, std::string name, const links::Link& link);

  // For those who came here through the server: says that its mutex, which they hold, is this
  // one's.
  void is_at([[maybe_unused]] const MemoryServer& held) const REQUIRES(held.mutex)
      THINWIRE_THREAD_SAFETY(assert_capability(server.mutex)) {
    assert(&held == &server);
  }

  const std::string& name() const { return name_; }
  bool connected() const REQUIRES(server.mutex) { return connected_; }

  // Runs `arrive` at the server, unless the connection is lost before then.
  void send(size_t bytes, std::function<void()> arrive) REQUIRES(server.mutex);
  // The same, from the server. `later_s` is an extra delay, for messages that may arrive out of
  // order.
  void receive(size_t bytes, std::function<void()> arrive, double later_s = 0)
      REQUIRES(server.mutex);
  void disconnect() REQUIRES(server.mutex);
  void reconnect() REQUIRES(server.mutex);
  // The courier is gone: everything that it was waiting for fails.
  void close() REQUIRES(server.mutex);

  // To be called after anything that concerns transfers: collects their answers and schedules their
  // next expiry.
  void settle() REQUIRES(server.mutex);
  void store(uint64_t ticket, const Chunk& chunk) override REQUIRES(server.mutex);
  void fetch(uint64_t ticket, const ChunkKey& key, const std::string& holder) override
      REQUIRES(server.mutex);

  // The server runs `act`; either its answer comes back or the deadline passes.
  using Act = std::function<Result<uint64_t>(MemoryServer& server)>;
  void ask(size_t bytes, Act act, Courier::Appended answered) REQUIRES(server.mutex);
  // Both send to this participant: the stream's records from `first` on, and one record of it.
  void catch_up(const std::string& stream, uint64_t first) REQUIRES(server.mutex);
  void send_record(const std::string& stream, uint64_t sequence) REQUIRES(server.mutex);

  MemoryServer& server;
  std::map<uint64_t, StatementSubscriber> subscribers GUARDED_BY(server.mutex);
  std::map<uint64_t, Reader> readers GUARDED_BY(server.mutex);
  BlobTransfers transfers GUARDED_BY(server.mutex);

 private:
  std::function<void()> if_still_connected(std::function<void()> arrive) REQUIRES(server.mutex);
  bool loses_connection() REQUIRES(server.mutex);
  void answer(uint64_t number, const Result<uint64_t>& result) REQUIRES(server.mutex);
  void take(const std::string& stream, uint64_t sequence, const Bytes& record)
      REQUIRES(server.mutex);
  void collect_answers() REQUIRES(server.mutex);

  const std::string name_;
  const links::Link link_;
  Pacer pacer_ GUARDED_BY(server.mutex);
  bool connected_ GUARDED_BY(server.mutex) = true;
  uint64_t connection_ GUARDED_BY(server.mutex) = 0;
  std::map<uint64_t, Courier::Appended> asked_ GUARDED_BY(server.mutex);  // not answered yet
  std::optional<MemoryServer::Moment> expiry_ GUARDED_BY(server.mutex);
};

}  // namespace thinwire::transport

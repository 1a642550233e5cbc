// The internals of a MemoryNetwork (courier_memory.h): its events, its server, and the ends of its
// connections. The server's lock protects everything except users' callbacks, which wait in `calls`
// and run without it.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/transport/courier/blob_transfers.h"
#include "thinwire/transport/courier/courier_memory.h"
#include "thinwire/transport/courier/listener.h"
#include "thinwire/transport/pacer.h"

namespace thinwire::transport {

class MemoryParticipant;

struct MemoryServer {
  using Moment = std::pair<double, uint64_t>;  // time, number

  explicit MemoryServer(const MemoryOptions& with) : options(with), rng(with.seed, 1) {}

  Moment at(double time, std::function<void()> event);
  // Runs the calls that are waiting, or else the next event no later than `until`; false: there was
  // neither. Takes the lock.
  bool step(double until);

  Result<void> store(const std::string& holder, const Chunk& chunk);
  void drop(const std::string& holder, const Sha256& blob);
  Result<Bytes> find(const std::string& holder, const ChunkKey& key);
  std::vector<StoredBlob> list(const std::string& holder) const;
  Result<uint64_t> append(const std::string& stream, uint64_t expected_last, const Bytes& record);
  // The last `count` records of a stream, or all it has.
  void lose_records(const std::string& stream, size_t count);
  void broadcast(const std::string& author, const std::string& topic, const Bytes& statement);

  const MemoryOptions options;
  std::mutex mutex;
  Rng rng;
  double now = 0;
  uint64_t last_event = 0;
  std::map<Moment, std::function<void()>> events;
  std::deque<std::function<void()>> calls;
  std::map<std::string, std::shared_ptr<MemoryParticipant>> participants;
  std::map<std::pair<std::string, ChunkKey>, Bytes> chunks;  // by holder and key
  std::map<std::string, std::vector<Bytes>> streams;
  uint64_t used_bytes = 0;
  uint64_t disk_bytes = std::numeric_limits<uint64_t>::max();
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

  MemoryParticipant(MemoryServer& server, std::string name, const links::Link& link);

  const std::string& name() const { return name_; }
  bool connected() const { return connected_; }

  // Runs `arrive` at the server, unless the connection is lost before then.
  void send(size_t bytes, std::function<void()> arrive);
  // The same, from the server. `later_s` is an extra delay, for messages that may arrive out of
  // order.
  void receive(size_t bytes, std::function<void()> arrive, double later_s = 0);
  void disconnect();
  void reconnect();
  // The courier is gone: everything that it was waiting for fails.
  void close();

  // To be called after anything that concerns transfers: collects their answers and schedules their
  // next expiry.
  void settle();
  void store(uint64_t ticket, const Chunk& chunk) override;
  void fetch(uint64_t ticket, const ChunkKey& key, const std::string& holder) override;

  // The server runs `act`; either its answer comes back or the deadline passes.
  void ask(size_t bytes, std::function<Result<uint64_t>()> act, Courier::Appended answered);
  // Both send to this participant: the stream's records from `first` on, and one record of it.
  void catch_up(const std::string& stream, uint64_t first);
  void send_record(const std::string& stream, uint64_t sequence);

  std::map<uint64_t, StatementSubscriber> subscribers;
  std::map<uint64_t, Reader> readers;
  BlobTransfers transfers;

 private:
  std::function<void()> if_still_connected(std::function<void()> arrive);
  bool loses_connection();
  void answer(uint64_t number, const Result<uint64_t>& result);
  void take(const std::string& stream, uint64_t sequence, const Bytes& record);
  void collect_answers();

  MemoryServer& server_;
  const std::string name_;
  const links::Link link_;
  Pacer pacer_;
  bool connected_ = true;
  uint64_t connection_ = 0;
  std::map<uint64_t, Courier::Appended> asked_;  // not answered yet
  std::optional<MemoryServer::Moment> expiry_;
};

}  // namespace thinwire::transport

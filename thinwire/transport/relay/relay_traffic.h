// What a relay does with the messages between its clients and the run's server. It passes
// everything on, as it is, between each client and that client's own connection to the server, with
// one exception: a request for a chunk that another client has fetched or stored, or is fetching,
// is answered from here, so that the chunk crosses the line to the server once. docs/hosts.md,
// "Behind a relay".
//
// Chunks are named by their SHA-256 and checked here and by whoever fetches them. What a client may
// do is decided by the server alone: nothing is answered from here until the server has answered a
// request for a chunk, or has stored one, over the same connection, which it does for members and
// coordinators only. A chunk that a client stores is given to others once the server has
// acknowledged it, so that what the client said before is with the server by then.
//
// A pure state machine without threads, clock or sockets. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/transport/nats/nats_subjects.h"
#include "thinwire/transport/relay/nats_frames.h"

namespace thinwire::transport {

// Chunks of blobs by their SHA-256, in memory: those that were used last, up to a number of bytes.
// Not thread-safe.
class ChunkCache {
 public:
  explicit ChunkCache(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // The caller has checked that the bytes have this hash.
  void add(const Sha256& name, std::shared_ptr<const Bytes> chunk);
  // Null: it is not there, or no more.
  std::shared_ptr<const Bytes> find(const Sha256& name);
  uint64_t bytes() const { return bytes_; }

 private:
  using Entry = std::pair<Sha256, std::shared_ptr<const Bytes>>;

  const uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  std::list<Entry> entries_;  // the one used last is the first
  std::map<Sha256, std::list<Entry>::iterator> by_name_;
};

// Where a relay's messages go. `client`: a number that stands for a client and its connection to
// the server.
class RelayWire {
 public:
  virtual ~RelayWire() = default;
  virtual void to_client(uint64_t client, std::span<const uint8_t> bytes) = 0;
  virtual void to_server(uint64_t client, std::span<const uint8_t> bytes) = 0;
};

class RelayTraffic {
 public:
  // `run`: its courier name. The wire must outlive this.
  RelayTraffic(RelayWire& wire, const std::string& run, uint64_t cache_bytes);

  void open(uint64_t client) { clients_[client]; }
  // Others may be waiting for what it was fetching: they fetch it themselves.
  void close(uint64_t client);
  void from_client(uint64_t client, const NatsFrame& frame);
  void from_server(uint64_t client, const NatsFrame& frame);

  // Chunks answered from here so far, and their bytes.
  uint64_t shared_chunks() const { return shared_chunks_; }
  uint64_t shared_bytes() const { return shared_bytes_; }

 private:
  struct Storing {
    Sha256 name;
    std::shared_ptr<const Bytes> chunk;
  };
  struct Client {
    std::map<std::string, std::string> subscriptions;  // subject by sid
    std::map<std::string, Sha256> fetching;  // what it asked the server for, by request_of
    std::map<std::string, Storing> storing;  // by reply
    bool may_fetch = false;
  };
  struct Request {
    uint64_t client;
    std::string reply;
    Bytes raw;
  };
  // A chunk that a client has asked the server for, and whoever waits for the same.
  struct Fetch {
    uint64_t client;
    std::string request;  // request_of its reply
    std::vector<Request> waiting;
  };

  void request(uint64_t client, const Sha256& name, const std::string& reply,
               std::span<const uint8_t> raw);
  bool wait(const Sha256& name, Request request);
  void note_storing(Client& client, const Sha256& name, const NatsFrame& frame);
  void take_answer(uint64_t client, const Sha256& name, const NatsFrame& frame);
  void take_acknowledgement(Client& client, const Storing& stored, const NatsFrame& frame);
  void keep(const Sha256& name, const std::shared_ptr<const Bytes>& chunk);
  bool answer(uint64_t client, const std::string& reply, const Bytes& chunk);

  RelayWire& wire_;
  const NatsSubjects subjects_;
  ChunkCache cache_;
  std::map<uint64_t, Client> clients_;
  std::map<Sha256, Fetch> fetches_;
  uint64_t shared_chunks_ = 0;
  uint64_t shared_bytes_ = 0;
};

}  // namespace thinwire::transport

// A network of couriers in memory and in virtual time, with faults, for simulating and testing what
// runs between hosts. The same calls at the same virtual times with the same seed give the same
// events in the same order.
//
// The model. Participants reach one server, each over its own connection. In each direction,
// messages arrive in order, no faster than the link's rate, and later by its delay. A lost
// connection loses everything in flight in both directions. The server keeps everything that it
// acknowledged, unless lose_records says otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "thinwire/links/links.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {

struct MemoryServer;

// Shares are probabilities in [0, 1].
struct MemoryFaults {
  double statement_delay_s = 0;  // most extra delay of a statement, so that some overtake others
  double lose = 0;               // of statements, for each receiver
  double duplicate = 0;          // of statements, for each receiver
  double alter = 0;              // of chunks fetched
  double disconnect = 0;         // of messages in either direction that break the connection
  double reconnect_s = 1;        // until a connection broken in this way is back
};

struct MemoryOptions {
  uint64_t seed = 1;
  double timeout_s = 30;
  uint64_t max_blob_bytes = 1 << 30;
  MemoryFaults faults = {};
};

// Thread-safe. Callbacks run in the thread that runs the network; only one thread may run it.
class MemoryNetwork {
 public:
  explicit MemoryNetwork(const MemoryOptions& options);
  ~MemoryNetwork();
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  // Adds a participant; only one courier per name at a time. A rate of 0 means unlimited. What was
  // stored under the name before is available again. The courier may outlive the network, but is
  // then never answered.
  std::unique_ptr<Courier> connect(const std::string& name, const links::Link& link = {});

  // Virtual seconds since the start.
  double now() const;
  // Advances to the next event and runs it; false: there is none.
  bool step();
  // Runs every event up to `time`, which is then the current time.
  void run_until(double time);
  // Runs until no event is left, which may never be the case while participants keep each other
  // busy.
  void run();
  // Schedules an event for the caller, to run with no locks held.
  void call_at(double time, std::function<void()> call);

  // --- faults on demand
  void disconnect(const std::string& name);
  void reconnect(const std::string& name);
  // The server refuses anything that would take it beyond this many bytes.
  void set_disk_bytes(uint64_t bytes);
  // The server loses the last records of a stream, as a power cut can make it do; connections stay.
  void lose_records(const std::string& stream, size_t count);
  // The server flips a bit of a chunk that it holds; false: it has no such chunk.
  bool alter_chunk(const std::string& holder, const Sha256& name);

 private:
  std::shared_ptr<MemoryServer> server_;
};

}  // namespace thinwire::transport

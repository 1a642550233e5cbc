// A network of couriers in memory and in virtual time, with faults: simulations and tests of what
// runs between hosts. The same calls at the same virtual times and the same seed give the same
// events in the same order.
//
// The model. Participants reach one server, each by a connection of its own: what is sent one way
// over it arrives in order, no faster than its link, and later by its delay; a connection that is
// lost takes what is under way in both directions with it. The server keeps what it acknowledged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "thinwire/links/links.h"
#include "thinwire/transport/courier.h"

namespace thinwire::transport {

struct MemoryServer;

// Shares are probabilities in [0, 1].
struct MemoryFaults {
  double statement_delay_s = 0;  // at most so much more for a statement, so that they overtake
  double lose = 0;               // of statements, for each receiver
  double duplicate = 0;          // of statements, for each receiver
  double alter = 0;              // of chunks fetched
  double disconnect = 0;         // of messages either way: the connection is lost at it
  double reconnect_s = 1;        // until such a connection is back
};

struct MemoryOptions {
  uint64_t seed = 1;
  double timeout_s = 30;
  uint64_t max_blob_bytes = 1 << 30;
  MemoryFaults faults = {};
};

// Thread-safe, but callbacks run in the thread that runs the network, and only one may.
class MemoryNetwork {
 public:
  explicit MemoryNetwork(const MemoryOptions& options);
  ~MemoryNetwork();
  MemoryNetwork(const MemoryNetwork&) = delete;
  MemoryNetwork& operator=(const MemoryNetwork&) = delete;

  // A participant; one courier a name at a time. A rate of 0: not limited. What the name stored
  // before is there again. The courier may outlive the network, where nothing answers any more.
  std::unique_ptr<Courier> connect(const std::string& name, const links::Link& link = {});

  // Virtual seconds since the start.
  double now() const;
  // Goes to the next event and lets it happen; false: there is none.
  bool step();
  // Lets all happen that does until then; the time is `time` afterwards.
  void run_until(double time);
  // Lets everything happen. Does not return while participants keep each other busy.
  void run();
  // An event of the caller's, with no locks held.
  void call_at(double time, std::function<void()> call);

  // --- faults at will
  void disconnect(const std::string& name);
  void reconnect(const std::string& name);
  // The server refuses what would take it beyond so many bytes.
  void set_disk_bytes(uint64_t bytes);
  // The server changes a bit of a chunk it holds; false: it has none such.
  bool alter_chunk(const std::string& holder, const Sha256& name);

 private:
  std::shared_ptr<MemoryServer> server_;
};

}  // namespace thinwire::transport

// Hosts around one store, in virtual time: messages that take a while, connections that break, a
// store whose power goes. Everything follows from the seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "memory_ledger.h"
#include "thinwire/base/rng.h"
#include "thinwire/membership/messages.h"

namespace thinwire::membership {

class Network;

// Whoever is connected to the store.
class Host {
 public:
  virtual ~Host() = default;
  // The connection is there (again); the store has `last` records.
  virtual void on_connected(uint64_t last) = 0;
  virtual void on_disconnected() {}
  // The next record of the stream that it reads (Network::read_from).
  virtual void on_record(const Bytes& record) = 0;

  bool running = false;
  bool linked = true;

 private:
  friend class Network;
  uint64_t session_ = 0;  // messages of earlier ones are lost
  bool connected_ = false;
  double last_out_ = 0;  // messages of a connection arrive in the order of sending
  double last_in_ = 0;
  uint64_t cursor_ = 0;  // the last record it was sent
};

class Network {
 public:
  explicit Network(uint64_t seed) : rng_(seed, 1) {}
  // Nothing in it depends on chance.
  Network() : rng_(0, 1), is_calm_(true) {}

  double now() const { return now_; }
  // Uniform in [0, 1); where nothing depends on chance the middle.
  double uniform() { return is_calm_ ? 0.5 : rng_.uniform(); }
  // True in one of `n` cases; always where nothing depends on chance.
  bool one_in(uint64_t n) { return is_calm_ || rng_.below(n) == 0; }
  // Runs `what` at now + delay_s.
  void after(double delay_s, std::function<void()> what);
  // Runs events until `end` or until `done` says so.
  void run(double end, const std::function<bool()>& done);

  void add(Host* host) { hosts_.push_back(host); }
  // To be called when `running`, `linked` or the store's state has changed.
  void update_connections();
  // Messages over a host's connection; lost with it. False where there is none.
  bool to_store(Host& host, std::function<void()> arrives);
  bool to_host(Host& host, std::function<void()> arrives);

  // --- the store, as its own requests see it
  MemoryLedger ledger;
  const std::set<Sha256>& blobs() const { return blobs_; }
  // False: the disk is full.
  bool put(const Sha256& blob);
  void append(const Append& append);
  // The host is sent all records behind `sequence`, in order, as they come.
  void read_from(Host& host, uint64_t sequence);
  void set_full(bool full);
  void sync();
  // It is away for a while; with `loses` what was not synced is lost.
  void restart_store(double seconds, bool loses);
  bool lost_anything() const { return lost_anything_; }

  // Called with each record that is stored, before it is announced.
  std::function<void(const Bytes&)> on_stored;

 private:
  struct Event {
    double at;
    uint64_t number;
    std::function<void()> what;
    // The heap's order: later ones are less. Events differ in their numbers.
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  double delay();
  void push_records(Host& host);

  Rng rng_;
  const bool is_calm_ = false;
  double now_ = 0;
  uint64_t events_ = 0;
  std::vector<Event> queue_;  // a heap, the next one in front
  std::vector<Host*> hosts_;
  bool store_runs_ = true;
  bool full_ = false;
  bool lost_anything_ = false;
  std::set<Sha256> blobs_;
  std::set<Sha256> unsynced_;
};

}  // namespace thinwire::membership

// A relay before a run's own nats-server, with a thread that serves it, and couriers over it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "nats_run.h"
#include "thinwire/transport/relay/relay.h"

namespace thinwire::transport {

class RelayedRun final : public CourierWorld {
 public:
  explicit RelayedRun(const NatsLimits& limits = {});
  ~RelayedRun() override;

  NatsRun& run() { return run_; }
  int port() const { return port_; }
  // How a user connects to the relay.
  NatsOptions options(const std::string& name);
  std::unique_ptr<Courier> connect(const std::string& name) override;
  bool wait(MailBase& mail, size_t count) override { return mail.wait(count, kNatsPatience); }

  bool has_copies() const override { return true; }

  RelayCounts counts();
  std::string problem();
  // Ends the relay, with its connections, and starts it again at the same port.
  void stop();
  void start();

 private:
  template <typename Question>
  auto ask(const Question& question) {
    ++asking_;
    const std::scoped_lock lock(mutex_);
    --asking_;
    return question(*relay_);
  }

  NatsRun run_;
  const Certificate authority_;
  int port_ = 0;
  std::mutex mutex_;             // guards relay_
  std::atomic<int> asking_ = 0;  // how many wait to look at the relay: they go first
  std::unique_ptr<Relay> relay_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

// A bare connection to a relay, of somebody who keeps to no protocol.
class Stranger {
 public:
  explicit Stranger(int port);
  ~Stranger();
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void send(std::string_view text) const;
  // Whether the relay has greeted it, rather than closed.
  bool greeted() const;
  // Until the relay closes; "hangs" behind it where it does not.
  std::string rest() const;

 private:
  int file_;
};

}  // namespace thinwire::transport

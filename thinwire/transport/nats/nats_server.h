// A nats-server as a child process: the server of a run if no other is given. Its folder holds
// everything needed to restart it unchanged: the run's authority and certificate, its
// configuration, its port and its store. docs/formats.md lists the files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/process.h"
#include "thinwire/transport/nats/nats_config.h"

namespace thinwire::transport {

// Used by one thread, which must live as long as the object: when the thread ends, however that
// happens, the server ends with it. Every call throws Error, with the last lines of the server's
// log, if the server does not do what it should, and UsageError if nats-server is not installed.
class NatsServer {
 public:
  // Starts the server; once this returns, it accepts connections: settings.limits.connections more
  // than it has users, but at most connections_within the files that it may open. A port of 0 means
  // the port that
  // the folder's server had before, or else a free one. `timeout_s` is how long starting and
  // reloading may each take.
  NatsServer(NatsSettings settings, std::vector<NatsUser> users, double timeout_s);
  // Shuts the server down cleanly.
  ~NatsServer();
  NatsServer(const NatsServer&) = delete;
  NatsServer& operator=(const NatsServer&) = delete;

  int port() const { return settings_.port; }
  // The certificate, in PEM, of the authority that signed the server's.
  const std::string& authority() const { return authority_; }

  // Sets the users who may connect from now on. Those who are no longer listed lose their
  // connections.
  void set_users(std::vector<NatsUser> users);
  // Removes users who have expired since. To be called from time to time.
  void expire_users();

  bool alive() { return !process_->poll(); }
  // Restarts the server if it has ended.
  void restart_if_ended();
  // Kills the server, which loses nothing that it acknowledged, and starts it again.
  void restart();
  // For tests: sends the server a signal.
  void signal(int number) { process_->signal(number); }

 private:
  void make_certificates();
  void write_configuration();
  void start();
  void await_ports();
  void reload();
  [[noreturn]] void fail_with_log(const std::string& what) const;

  NatsSettings settings_;
  int most_connections_;
  std::vector<NatsUser> users_;
  const double timeout_s_;
  std::string authority_;
  std::string configuration_;
  std::unique_ptr<Process> process_;
};

}  // namespace thinwire::transport

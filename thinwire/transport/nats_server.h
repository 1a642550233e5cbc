// A nats-server as a child process: the server of a run when nobody brings one. Its folder holds
// all that it needs to come back as it was: the run's authority and certificate, its configuration,
// its port and its store. docs/formats.md lists the files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/process.h"
#include "thinwire/transport/nats_config.h"

namespace thinwire::transport {

// Used by one thread, which is to live as long as the object: when it ends, in whatever way, the
// server ends with it. Everything throws Error, with what the server said last, where the server
// does not do as it should; UsageError where there is no nats-server.
class NatsServer {
 public:
  // Starts it; on return, it takes connections. A port of 0 is the one that the folder's server had
  // before, else one that is free. `patience_s` is how long starting and reloading may take.
  NatsServer(NatsSettings settings, std::vector<NatsUser> users, double patience_s);
  // Ends it in order.
  ~NatsServer();
  NatsServer(const NatsServer&) = delete;
  NatsServer& operator=(const NatsServer&) = delete;

  int port() const { return settings_.port; }
  // Of the authority whose certificate the server has, in PEM.
  const std::string& authority() const { return authority_; }

  // Who may connect from now on. Those who may no more lose their connections.
  void set_users(std::vector<NatsUser> users);
  // Leaves out whoever has expired meanwhile. To be called now and then.
  void expire_users();

  bool alive() { return !process_->poll(); }
  // Starts it again if it has ended.
  void revive();
  // For tests: a signal to the server.
  void signal(int number) { process_->signal(number); }

 private:
  void make_certificates();
  void write_configuration();
  void start();
  void await_ports();
  void reload();
  [[noreturn]] void fail_with_log(const std::string& what) const;

  NatsSettings settings_;
  std::vector<NatsUser> users_;
  const double patience_s_;
  std::string authority_;
  std::string configuration_;
  std::unique_ptr<Process> process_;
};

}  // namespace thinwire::transport

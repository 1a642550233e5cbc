// A nats-server as a child process: the server of a run if no other is given. Its folder holds
// everything needed to restart it unchanged: the run's authority and certificate, its
// configuration, its port and its store. docs/formats.md lists the files.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/process.h"
#include "thinwire/transport/nats/nats_config.h"

namespace thinwire::transport {

// Versions of nats-server, and what is known of those that lose what they have acknowledged.
// docs/security.md names the faults.
struct NatsVersion {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const NatsVersion&) const = default;
};

// Older ones are refused: they may lose stored messages after a kill or a power cut.
inline constexpr NatsVersion kOldestNats{2, 9, 0};
// Older ones may lose messages when they or their machine crash.
inline constexpr NatsVersion kSafeNats{2, 10, 23};

// The version in what `nats-server --version` prints, "nats-server: v2.10.27"; nothing if it names
// none, as a build from a working tree does.
std::optional<NatsVersion> parse_nats_version(std::string_view text);

// The version of this program, which is run for it. Throws Error if it cannot be run, and
// UsageError, with what to do, if it is refused.
std::optional<NatsVersion> check_nats_version(const std::string& program);

// For the user: which server it is, and what is known to be wrong with it.
std::string describe_nats(const std::string& program, const std::optional<NatsVersion>& version);

// The log of a nats-server, to which strangers add a line with every connection: it is read from a
// mark on, never as a whole, and cut to its newest lines once it is too long.

// Used by one thread. The server must only ever append to the file (O_APPEND).
class ServerLog {
 public:
  // The newest `limit` bytes of what is cut off go to a second file, which is named `file`.old.
  ServerLog(fs::path file, uint64_t limit);

  // What is logged from here on is read.
  void mark();
  // Calls `see` with each line since the mark or the last call that is complete: its level and
  // text, such as "[INF] Server is ready", without what stands before them. Clients' words follow
  // the name of a connection, so no line of theirs begins as one of the server itself does.
  void read(const std::function<void(std::string_view line)>& see);
  // Cuts the log if it is longer than the limit. Not to be called between mark() and read().
  void trim() const;

  const fs::path& file() const { return file_; }

 private:
  const fs::path file_;
  const uint64_t limit_;
  uint64_t read_to_ = 0;
  std::string begun_;  // a line without its end
};

// Why a server that logged this line before it ended cannot listen at `port`; empty: it says
// something else. `port_is_known`: to the members of its run.
std::string why_not_listening(std::string_view line, int port, bool port_is_known);

// Used by one thread, which must live as long as the object: when the thread ends, however that
// happens, the server ends with it. Every call throws Error, with the server's reason, if the
// server does not do what it should, and UsageError if nats-server is not installed or too old.
class NatsServer {
 public:
  // Starts the server; once this returns, it accepts connections: settings.limits.connections more
  // than it has users, but at most connections_within the files that it may open. A port of 0 means
  // the port that
  // the folder's server had before, or else a free one. `timeout_s` is how long starting and
  // reloading may each take. Error if it cannot listen there.
  NatsServer(NatsSettings settings, std::vector<NatsUser> users, double timeout_s);
  // Shuts the server down cleanly.
  ~NatsServer();
  NatsServer(const NatsServer&) = delete;
  NatsServer& operator=(const NatsServer&) = delete;

  // For the user: the program's version and place, and what is known to be wrong with it.
  std::string description() const { return describe_nats(program_, version_); }
  int port() const { return settings_.port; }
  // The certificate, in PEM, of the authority that signed the server's.
  const std::string& authority() const { return authority_; }

  // Sets the users who may connect from now on. Those who are no longer listed lose their
  // connections.
  void set_users(std::vector<NatsUser> users);
  // Removes users who have expired since. To be called from time to time.
  void expire_users();
  // Cuts the server's log if strangers have made it too long. To be called several times a second.
  void trim_log() const { log_.trim(); }

  bool alive() { return !process_->poll(); }
  // Restarts the server if it has ended.
  void restart_if_ended();
  // Kills the server, which loses nothing that it acknowledged, until it is started again.
  void kill();
  // For tests: sends the server a signal.
  void signal(int number) { process_->signal(number); }

 private:
  void make_certificates();
  void write_configuration();
  void start();
  void await_ports();
  void reload();
  [[noreturn]] void fail_to_start(const std::string& what);
  [[noreturn]] void fail_with_log(const std::string& what) const;

  NatsSettings settings_;
  bool port_is_known_ = false;  // to members: the folder's server had it before
  int most_connections_;
  std::vector<NatsUser> users_;
  const double timeout_s_;
  std::string authority_;
  std::string configuration_;
  const std::string program_;
  std::optional<NatsVersion> version_;
  ServerLog log_;
  std::unique_ptr<Process> process_;
};

}  // namespace thinwire::transport

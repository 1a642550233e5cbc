#include "thinwire/transport/nats/nats_server.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/transport/nats/certificates.h"

namespace thinwire::transport {
namespace {

constexpr const char* kProgram = "nats-server";
constexpr const char* kConfigurationFile = "nats.conf";
constexpr const char* kLogFile = "nats.log";
constexpr const char* kPortFile = "port";
constexpr const char* kAuthorityFile = "authority.pem";
constexpr const char* kAuthorityKeyFile = "authority.key";
constexpr size_t kLogShown = 2000;  // bytes
constexpr std::chrono::milliseconds kPollInterval(2);

// What it logs about a reloaded configuration.
constexpr std::string_view kReloaded = "Reloaded server configuration";
constexpr std::string_view kNotReloaded = "Failed to reload server configuration";

size_t count_in(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Of {"nats": ["tls://HOST:PORT", ...]}; nothing while the file is being written.
std::optional<int> port_in(const std::string& text) {
  const auto ports = try_parse_json<nlohmann::json>(text);
  if (!ports.is_object() || !ports.contains("nats") || !ports["nats"].is_array() ||
      ports["nats"].empty() || !ports["nats"][0].is_string()) {
    return std::nullopt;
  }
  const auto url = ports["nats"][0].get<std::string>();
  int port = 0;
  const char* end = url.data() + url.size();
  const auto [stop, error] = std::from_chars(url.data() + url.rfind(':') + 1, end, port);
  return error == std::errc() && stop == end ? std::optional(port) : std::nullopt;
}

std::vector<fs::path> port_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".ports") files.push_back(entry.path());
  }
  return files;
}

// How many files a child of this process may open: nats-server raises its limit to the hard one.
uint64_t files_of_children() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw Error("the limit of open files is not known");
  return limit.rlim_max;
}

// True once ready() is.
bool await(double timeout_s, const std::function<bool()>& ready) {
  const Stopwatch watch;
  while (!ready()) {
    if (watch.seconds() > timeout_s) return false;
    std::this_thread::sleep_for(kPollInterval);
  }
  return true;
}

}  // namespace

NatsServer::NatsServer(NatsSettings settings, std::vector<NatsUser> users, double timeout_s)
    : settings_(std::move(settings)),
      most_connections_(connections_within(files_of_children())),
      users_(std::move(users)),
      timeout_s_(timeout_s) {
  if (!have_program(kProgram)) {
    throw UsageError("there is no nats-server: install the package nats-server");
  }
  fs::create_directories(settings_.folder);
  fs::permissions(settings_.folder, fs::perms::owner_all);  // it holds keys
  settings_.folder = fs::absolute(settings_.folder);
  make_certificates();
  const fs::path port_file = settings_.folder / kPortFile;
  if (settings_.port == 0 && fs::exists(port_file)) {
    settings_.port = std::stoi(read_text_file(port_file));
  }
  write_configuration();
  start();
}

NatsServer::~NatsServer() {
  if (process_) process_->signal(SIGTERM);
}

void NatsServer::make_certificates() {
  const fs::path& folder = settings_.folder;
  if (!fs::exists(folder / kServerKeyFile)) {
    const Validity validity = validity_from_now();
    const Certificate authority = make_authority(validity);
    const Certificate server = make_server_certificate(authority, validity);
    write_file(folder / kAuthorityFile, authority.certificate);
    write_file(folder / kAuthorityKeyFile, authority.key);
    write_file(folder / kServerCertificateFile, server.certificate);
    write_file(folder / kServerKeyFile, server.key);  // last: then all are there
  }
  authority_ = read_text_file(folder / kAuthorityFile);
}

void NatsServer::write_configuration() {
  NatsSettings settings = settings_;
  const size_t wanted = static_cast<size_t>(settings.limits.connections) + users_.size();
  settings.limits.connections =
      static_cast<int>(std::min(wanted, static_cast<size_t>(most_connections_)));
  configuration_ = nats_configuration(settings, users_, static_cast<int64_t>(unix_seconds()));
  write_file(settings_.folder / kConfigurationFile, configuration_);
}

void NatsServer::start() {
  for (const fs::path& old : port_files(settings_.folder)) fs::remove(old);
  const std::vector<std::string> command = {kProgram, "-c",
                                            (settings_.folder / kConfigurationFile).string()};
  process_ = std::make_unique<Process>(command, settings_.folder / kLogFile, /*own_group=*/true);
  await_ports();
}

void NatsServer::await_ports() {
  std::optional<int> port;
  const bool ready = await(timeout_s_, [&] {
    if (const auto ended = process_->poll()) {
      fail_with_log("nats-server ended with " + ended->describe());
    }
    for (const fs::path& file : port_files(settings_.folder)) port = port_in(read_text_file(file));
    return port.has_value();
  });
  if (!ready) {
    process_->signal(SIGKILL);
    fail_with_log(fmt::format("nats-server still accepts no connections after {:g} s", timeout_s_));
  }
  if (settings_.port == *port) return;
  settings_.port = *port;
  write_file(settings_.folder / kPortFile, std::to_string(*port));
  write_configuration();  // for when it comes back
}

void NatsServer::set_users(std::vector<NatsUser> users) {
  users_ = std::move(users);
  reload();
}

void NatsServer::expire_users() { reload(); }

void NatsServer::reload() {
  const std::string before = std::exchange(configuration_, {});
  write_configuration();
  if (configuration_ == before || !alive()) return;
  const fs::path log = settings_.folder / kLogFile;
  const std::string old_log = read_text_file(log);
  const size_t reloads = count_in(old_log, kReloaded);
  const size_t refusals = count_in(old_log, kNotReloaded);
  process_->signal(SIGHUP);
  const bool done = await(timeout_s_, [&] {
    const std::string text = read_text_file(log);
    if (count_in(text, kNotReloaded) > refusals) {
      fail_with_log("nats-server refuses its configuration");
    }
    return count_in(text, kReloaded) > reloads || !alive();
  });
  if (!done) {
    fail_with_log(fmt::format("nats-server did not reload its users in {:g} s", timeout_s_));
  }
}

void NatsServer::restart_if_ended() {
  if (!alive()) start();
}

void NatsServer::restart() {
  process_->signal(SIGKILL);
  process_->wait();
  start();
}

void NatsServer::fail_with_log(const std::string& what) const {
  const std::string log = read_text_file(settings_.folder / kLogFile);
  const size_t from = log.size() > kLogShown ? log.size() - kLogShown : 0;
  throw Error(fmt::format("{}; its log ends with:\n{}", what, log.substr(from)));
}

}  // namespace thinwire::transport

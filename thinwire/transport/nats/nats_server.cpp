#include "thinwire/transport/nats/nats_server.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/ip_address.h"
#include "thinwire/base/json.h"
#include "thinwire/transport/nats/certificates.h"

namespace thinwire::transport {
namespace {

constexpr size_t kBlockBytes = 64 << 10;
constexpr size_t kMaxLineBytes = 64 << 10;  // of which no more is kept
constexpr const char* kOldSuffix = ".old";

uint64_t size_of(const fs::path& file) {
  std::error_code missing;
  const auto size = fs::file_size(file, missing);
  return missing ? 0 : size;
}

// A part of at most `bytes`, from `offset` on; empty at the file's end.
std::string part_of(const fs::path& file, uint64_t offset, size_t bytes) {
  std::string part(bytes, '\0');
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(part.data(), static_cast<std::streamsize>(bytes));
  part.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return part;
}

// "[LVL] text" of "[PID] DATE TIME [LVL] text"; a line in another form is returned as it is.
std::string_view from_level(std::string_view line) {
  if (!line.starts_with('[')) return line;
  const size_t level = line.find(" [");
  return level == line.npos ? line : line.substr(level + 1);
}

}  // namespace

ServerLog::ServerLog(fs::path file, uint64_t limit) : file_(std::move(file)), limit_(limit) {}

void ServerLog::mark() {
  read_to_ = size_of(file_);
  begun_.clear();
}

void ServerLog::read(const std::function<void(std::string_view line)>& see) {
  while (true) {
    const std::string block = part_of(file_, read_to_, kBlockBytes);
    read_to_ += block.size();
    std::string_view rest = block;
    for (size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      begun_ += rest.substr(0, end);
      see(from_level(begun_));
      begun_.clear();
      rest.remove_prefix(end + 1);
    }
    begun_ += rest.substr(0, kMaxLineBytes - std::min(begun_.size(), kMaxLineBytes));
    if (block.size() < kBlockBytes) return;
  }
}

// What the server writes between the two steps is lost; it goes on at the new end of the file.
void ServerLog::trim() const {
  const uint64_t size = size_of(file_);
  if (size <= limit_) return;
  const std::string newest = part_of(file_, size - limit_, static_cast<size_t>(limit_));
  try {
    write_file(file_.string() + kOldSuffix, newest.substr(newest.find('\n') + 1));
  } catch (const Error&) {  // the disk is full, which is one more reason to make room
  }
  fs::resize_file(file_, 0);
}

std::string why_not_listening(std::string_view line, int port, bool port_is_known) {
  const auto says = [&](std::string_view text) { return line.find(text) != line.npos; };
  if (!says("listen tcp")) return "";
  if (says("address already in use") && port_is_known) {
    return fmt::format(
        "another program uses port {}, at which members of this run look for it; end that program "
        "or give another port (0: a free one)",
        port);
  }
  if (says("address already in use")) return listen_problem(EADDRINUSE, port);
  if (says("permission denied")) return listen_problem(EACCES, port);
  if (says("cannot assign requested address")) {
    return listen_problem(EADDRNOTAVAIL, port);
  }
  if (says("no such host")) return "no machine has this name";
  return "";
}

namespace {

constexpr const char* kProgram = "nats-server";
constexpr const char* kConfigurationFile = "nats.conf";
constexpr const char* kLogFile = "nats.log";
constexpr const char* kPortFile = "port";
constexpr const char* kAuthorityFile = "authority.pem";
constexpr const char* kAuthorityKeyFile = "authority.key";
constexpr std::chrono::milliseconds kPollInterval(2);

// What it logs about a reloaded configuration, and before it ends.
constexpr std::string_view kReloaded = "[INF] Reloaded server configuration";
constexpr std::string_view kNotReloaded = "[ERR] Failed to reload server configuration";
constexpr std::string_view kFatal = "[FTL] ";

// The port in {"nats": ["tls://HOST:PORT", ...]}; nothing while the file is being written.
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
      timeout_s_(timeout_s),
      program_(find_program(kProgram)),
      log_(fs::absolute(settings_.folder) / kLogFile, settings_.limits.log_bytes) {
  if (program_.empty()) {
    throw UsageError(
        "there is no nats-server: install the package nats-server, or put the program beside "
        "thinwire");
  }
  version_ = check_nats_version(program_);
  fs::create_directories(settings_.folder);
  fs::permissions(settings_.folder, fs::perms::owner_all);  // it holds keys
  settings_.folder = fs::absolute(settings_.folder);
  make_certificates();
  const fs::path port_file = settings_.folder / kPortFile;
  if (settings_.port == 0 && fs::exists(port_file)) {
    settings_.port = std::stoi(read_text_file(port_file));
    port_is_known_ = true;
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
  const std::vector<std::string> command = {program_, "-c",
                                            (settings_.folder / kConfigurationFile).string()};
  log_.trim();
  log_.mark();
  process_ = std::make_unique<Process>(command, log_.file(), /*own_group=*/true);
  await_ports();
}

void NatsServer::await_ports() {
  std::optional<int> port;
  const bool ready = await(timeout_s_, [&] {
    if (const auto ended = process_->poll()) {
      fail_to_start("nats-server ended with " + ended->describe());
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
  bool reloaded = false;
  log_.mark();
  process_->signal(SIGHUP);
  const bool done = await(timeout_s_, [&] {
    log_.read([&](std::string_view line) {
      if (line.starts_with(kNotReloaded)) fail_with_log(fmt::format("nats-server: {}", line));
      reloaded = reloaded || line.starts_with(kReloaded);
    });
    return reloaded || !alive();
  });
  if (!done) {
    fail_with_log(fmt::format("nats-server did not reload its users in {:g} s", timeout_s_));
  }
}

void NatsServer::restart_if_ended() {
  if (!alive()) start();
}

void NatsServer::kill() {
  process_->signal(SIGKILL);
  process_->wait();
}

// The last line before its end says why, unless that is said to be fatal earlier.
void NatsServer::fail_to_start(const std::string& what) {
  std::string reason;
  log_.read([&](std::string_view line) {
    if (!line.empty() && !reason.starts_with(kFatal)) reason = line;
  });
  const std::string why = why_not_listening(reason, settings_.port, port_is_known_);
  if (why.empty()) fail_with_log(reason.empty() ? what : fmt::format("{}: {}", what, reason));
  throw Error(
      fmt::format("--listen: cannot listen at {}:{}: {}", settings_.host, settings_.port, why));
}

void NatsServer::fail_with_log(const std::string& what) const {
  throw Error(fmt::format("{}; its log is {}", what, log_.file().string()));
}

}  // namespace thinwire::transport

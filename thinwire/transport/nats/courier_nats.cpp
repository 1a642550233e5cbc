#include "thinwire/transport/nats/courier_nats.h"

#include <fmt/format.h>
#include <nats/nats.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "thinwire/base/interrupt.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/nkey.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::transport {
namespace {

constexpr int kMillisecond = 1000;   // in a second
constexpr int kFirstRetryMs = 50;    // after a lost connection; the library adds up to as much
constexpr int kPingsUnanswered = 2;  // before a connection counts as lost

// What callbacks of the library need. They may come after everything was destroyed, so they find
// this by a number.
struct Sink {
  Mutex gate;  // held by callbacks
  bool open GUARDED_BY(gate) = true;
  NatsConnection::Events events;
  std::unique_ptr<Signer> signer;
  std::string jwt;
  std::atomic<bool> unsendable = false;  // the last signature began with a zero byte
};

class Sinks {
 public:
  uint64_t add(const std::shared_ptr<Sink>& sink) {
    const Lock lock(mutex_);
    sinks_.emplace(++last_, sink);
    return last_;
  }
  void remove(uint64_t number) {
    const Lock lock(mutex_);
    sinks_.erase(number);
  }
  std::shared_ptr<Sink> find(uint64_t number) {
    const Lock lock(mutex_);
    const auto sink = sinks_.find(number);
    return sink == sinks_.end() ? nullptr : sink->second;
  }

 private:
  Mutex mutex_;
  uint64_t last_ GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::shared_ptr<Sink>> sinks_ GUARDED_BY(mutex_);
};

// Never destroyed, because threads of the library outlive main().
Sinks& sinks() {
  static auto* const all = new Sinks;
  return *all;
}

// NOLINTNEXTLINE(performance-no-int-to-ptr): the library passes it on and never looks at it
void* closure_of(uint64_t number) { return reinterpret_cast<void*>(number); }

template <typename Call>
void with_sink(void* closure, const Call& call) {
  const auto number = reinterpret_cast<uint64_t>(closure);
  const std::shared_ptr<Sink> sink = sinks().find(number);
  if (!sink) return;
  const Lock lock(sink->gate);
  if (sink->open) call(*sink, number);
}

std::vector<std::string> values_of(natsMsg* message, const char* header) {
  const char** values = nullptr;
  int count = 0;
  if (natsMsgHeader_Values(message, header, &values, &count) != NATS_OK) return {};
  std::vector<std::string> all(values, values + count);
  std::free(static_cast<void*>(values));
  return all;
}

void on_message(natsConnection*, natsSubscription*, natsMsg* raw, void* closure) {
  with_sink(closure, [&](const Sink& sink, uint64_t number) {
    const auto* data = reinterpret_cast<const uint8_t*>(natsMsg_GetData(raw));
    const auto length = static_cast<size_t>(natsMsg_GetDataLength(raw));
    sink.events.message({number, natsMsg_GetSubject(raw), Bytes(data, data + length),
                         values_of(raw, "Status"), values_of(raw, "Nats-Stream"),
                         values_of(raw, "Nats-Sequence")});
  });
  natsMsg_Destroy(raw);
}

void on_disconnect(natsConnection*, void* closure) {
  with_sink(closure, [](const Sink& sink, uint64_t) { sink.events.link(false); });
}

void on_reconnect(natsConnection*, void* closure) {
  with_sink(closure, [](const Sink& sink, uint64_t) { sink.events.link(true); });
}

void on_error(natsConnection* connection, natsSubscription*, natsStatus status, void* closure) {
  const char* text = nullptr;
  natsConnection_GetLastError(connection, &text);
  const std::string reason = text == nullptr ? natsStatus_GetText(status) : text;
  with_sink(closure, [&](const Sink& sink, uint64_t) { sink.events.refused(reason); });
}

// The library's last error without the place in its source, "(conn.c:733): ".
std::string last_error() {
  const char* text = nats_GetLastError(nullptr);
  std::string reason = text == nullptr ? "" : text;
  const size_t place = reason.starts_with('(') ? reason.find("): ") : std::string::npos;
  if (place != std::string::npos) reason.erase(0, place + std::string_view("): ").size());
  return reason;
}

// Why a server's and this side's TLS do not come together, by OpenSSL: the part before ":depth" and
// behind the colon in "SSL handshake error: 20:unable to get local issuer certificate:depth=0:…",
// or the last part of another failure.
std::string why_no_tls(std::string text) {
  const size_t certificate = text.find(":depth=");
  const bool is_certificate = certificate != std::string::npos;
  text.erase(std::min(certificate, text.size()));
  text.erase(0, text.find_last_of(':') + 1);
  return fmt::format("{} ({})",
                     is_certificate ? "its certificate is not trusted" : "it does not speak TLS",
                     text.substr(std::min(text.find_first_not_of(' '), text.size())));
}

// Why a server refuses, in a sentence that "it" begins; `text`: the library's reason.
std::string why_refused(natsStatus status, const std::string& text) {
  if (status == NATS_CONNECTION_AUTH_FAILED) return "it does not know the key, or no longer";
  if (status == NATS_SSL_ERROR) return why_no_tls(text);
  if (status == NATS_SECURE_CONNECTION_WANTED) return "it does not speak TLS";
  return text.empty() ? natsStatus_GetText(status) : text;
}

// The library tries to connect for ever unless the server rejects this side's identity.
void on_closed(natsConnection* connection, void* closure) {
  const char* text = nullptr;
  const natsStatus status = natsConnection_GetLastError(connection, &text);
  const std::string reason = why_refused(status, text == nullptr ? "" : text);
  with_sink(closure, [&](const Sink& sink, uint64_t) { sink.events.denied(reason); });
}

natsStatus on_nonce(char**, unsigned char** signature, int* length, const char* nonce,
                    void* closure) {
  *signature = nullptr;
  if (nonce == nullptr) return NATS_ERR;  // a server that does not authenticate its clients
  with_sink(closure, [&](Sink& sink, uint64_t) {
    const Signature made = sink.signer->sign(as_bytes(std::string_view(nonce)));
    // The library (3.4) treats bytes that begin with a zero as an empty text and sends no
    // signature; the server would refuse that. The next attempt signs another nonce.
    sink.unsendable = made.bytes[0] == 0;
    if (sink.unsendable) return;
    *signature = static_cast<unsigned char*>(std::malloc(made.bytes.size()));
    *length = static_cast<int>(made.bytes.size());
    if (*signature != nullptr) std::memcpy(*signature, made.bytes.data(), made.bytes.size());
  });
  return *signature == nullptr ? NATS_ERR : NATS_OK;
}

natsStatus on_jwt(char** jwt, char**, void* closure) {
  *jwt = nullptr;
  with_sink(closure, [&](const Sink& sink, uint64_t) { *jwt = ::strdup(sink.jwt.c_str()); });
  return *jwt == nullptr ? NATS_ERR : NATS_OK;
}

struct Free {
  void operator()(natsOptions* options) const { natsOptions_Destroy(options); }
  void operator()(natsConnection* connection) const { natsConnection_Destroy(connection); }
  void operator()(natsSubscription* subscription) const { natsSubscription_Destroy(subscription); }
  void operator()(natsMsg* message) const { natsMsg_Destroy(message); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

void require(natsStatus status, std::string_view what) {
  if (status == NATS_OK) return;
  throw Error(
      fmt::format("libnats cannot {}: {} {}", what, natsStatus_GetText(status), last_error()));
}

// Why nobody answers, in plain words; empty: somebody refuses.
std::string why_nobody(natsStatus status) {
  switch (status) {
    case NATS_NO_SERVER:
      return "nobody answers";
    case NATS_TIMEOUT:
      return "no answer came in time";
    case NATS_IO_ERROR:
    case NATS_CONNECTION_CLOSED:
    case NATS_CONNECTION_DISCONNECTED:
      return "the connection was closed before a server answered";
    default:
      return "";
  }
}

Failure failure_of(natsStatus status) {
  const std::string nobody = why_nobody(status);
  if (!nobody.empty()) return {FailureKind::kLostPeer, nobody};
  return {FailureKind::kRefused, why_refused(status, last_error())};
}

// Where several servers may answer, each has half of the time.
double shared_s(const NatsTarget& target, double seconds) {
  return target.servers.size() > 1 ? seconds / 2 : seconds;
}

double timeout_s(const NatsTarget& target) { return shared_s(target, target.timeout_s); }

double silence_s(const NatsTarget& target) {
  return shared_s(target, target.silence_s > 0 ? target.silence_s : target.timeout_s);
}

void take_identity(natsOptions* options, const Sink& sink, void* closure) {
  if (sink.jwt.empty()) {
    const std::string user = encode_public_key(NKeyKind::kUser, sink.signer->key());
    require(natsOptions_SetNKey(options, user.c_str(), on_nonce, closure), "take the identity");
  } else {
    require(natsOptions_SetUserCredentialsCallbacks(options, on_jwt, closure, on_nonce, closure),
            "take the identity");
  }
}

void take_certificates(natsOptions* options, const NatsTarget& target) {
  require(natsOptions_SetSecure(options, true), "use TLS");
  if (!target.ca_pem.empty()) {
    require(natsOptions_SetCATrustedCertificates(options, target.ca_pem.c_str()),
            "take the CA's certificate");
  }
  if (!target.server_name.empty()) {
    require(natsOptions_SetExpectedHostname(options, target.server_name.c_str()),
            "check the server's name");
  }
}

Owned<natsOptions> options_of(const NatsTarget& target, const Sink& sink, void* closure) {
  natsOptions* made = nullptr;
  require(natsOptions_Create(&made), "make options");
  Owned<natsOptions> options(made);
  std::vector<std::string> urls;
  for (const std::string& server : target.servers) urls.push_back("tls://" + server);
  std::vector<const char*> names;
  for (const std::string& url : urls) names.push_back(url.c_str());
  const auto timeout_ms = static_cast<int64_t>(timeout_s(target) * kMillisecond);
  const auto silence_ms = static_cast<int64_t>(silence_s(target) * kMillisecond);
  require(natsOptions_SetServers(made, names.data(), static_cast<int>(names.size())),
          "take the servers' addresses");
  natsOptions_SetNoRandomize(made, target.only_these);
  natsOptions_SetIgnoreDiscoveredServers(made, target.only_these);
  take_certificates(made, target);
  take_identity(made, sink, closure);
  natsOptions_SetTimeout(made, timeout_ms);
  natsOptions_SetPingInterval(made, std::max<int64_t>(silence_ms / (kPingsUnanswered + 1), 1));
  natsOptions_SetMaxPingsOut(made, kPingsUnanswered);
  natsOptions_SetWriteDeadline(made, timeout_ms);
  natsOptions_SetMaxReconnect(made, -1);
  natsOptions_SetReconnectWait(made, kFirstRetryMs);
  natsOptions_SetReconnectJitter(made, kFirstRetryMs, kFirstRetryMs);
  natsOptions_SetSendAsap(made, true);
  natsOptions_SetDisconnectedCB(made, on_disconnect, closure);
  natsOptions_SetReconnectedCB(made, on_reconnect, closure);
  natsOptions_SetClosedCB(made, on_closed, closure);
  natsOptions_SetErrorHandler(made, on_error, closure);
  return options;
}

class LibraryConnection final : public NatsConnection {
 public:
  LibraryConnection(std::shared_ptr<Sink> sink, uint64_t number, Owned<natsConnection> connection)
      : sink_(std::move(sink)), number_(number), connection_(std::move(connection)) {}
  ~LibraryConnection() override {
    {
      const Lock lock(sink_->gate);
      sink_->open = false;
    }
    for (const auto& [number, subscription] : subscriptions_) sinks().remove(number);
    sinks().remove(number_);
  }
  LibraryConnection(const LibraryConnection&) = delete;
  LibraryConnection& operator=(const LibraryConnection&) = delete;

  Result<void> publish(const std::string& subject, const std::string& reply,
                       const std::vector<NatsHeader>& headers,
                       std::span<const uint8_t> body) override {
    natsMsg* made = nullptr;
    require(
        natsMsg_Create(&made, subject.c_str(), reply.empty() ? nullptr : reply.c_str(),
                       reinterpret_cast<const char*>(body.data()), static_cast<int>(body.size())),
        "make a message");
    const Owned<natsMsg> message(made);
    for (const NatsHeader& header : headers) {
      require(natsMsgHeader_Add(made, header.name.c_str(), header.value.c_str()), "add a header");
    }
    const natsStatus status = natsConnection_PublishMsg(connection_.get(), made);
    if (status != NATS_OK) return tl::unexpected(failure_of(status));
    return {};
  }

  uint64_t subscribe(const std::string& subject) override {
    const uint64_t number = sinks().add(sink_);
    natsSubscription* made = nullptr;
    const natsStatus status = natsConnection_Subscribe(&made, connection_.get(), subject.c_str(),
                                                       on_message, closure_of(number));
    // A connection that the server has closed for good receives nothing.
    if (status == NATS_OK) subscriptions_.emplace(number, made);
    return number;
  }
  void unsubscribe(uint64_t subscription) override {
    subscriptions_.erase(subscription);
    sinks().remove(subscription);
  }

 private:
  const std::shared_ptr<Sink> sink_;
  const uint64_t number_;
  Owned<natsConnection> connection_;
  std::map<uint64_t, Owned<natsSubscription>> subscriptions_;
};

}  // namespace

Result<std::unique_ptr<NatsConnection>> connect_nats(const NatsTarget& target,
                                                     NatsConnection::Events events) {
  ignore_closed_pipes();  // the library's writes to a closed connection raise SIGPIPE
  const auto sink = std::make_shared<Sink>();
  sink->events = std::move(events);
  sink->signer = make_signer(target.identity);
  sink->jwt = target.jwt;
  const uint64_t number = sinks().add(sink);
  const ConnectBound bound(timeout_s(target));
  const Owned<natsOptions> options = options_of(target, *sink, closure_of(number));
  natsConnection* made = nullptr;
  natsStatus status = NATS_OK;
  do {
    sink->unsendable = false;
    status = natsConnection_Connect(&made, options.get());
  } while (status != NATS_OK && sink->unsendable);
  if (status != NATS_OK) {
    sinks().remove(number);
    const Lock lock(sink->gate);
    sink->open = false;
    if (bound.expired()) {
      return fail(FailureKind::kLostPeer,
                  fmt::format("the server took the connection, but then did not answer for {:g} s",
                              timeout_s(target)));
    }
    return tl::unexpected(failure_of(status));
  }
  return std::make_unique<LibraryConnection>(sink, number, Owned<natsConnection>(made));
}

}  // namespace thinwire::transport

// The messages of NATS's client protocol, as far as something between a client and its server has
// to understand them. docs.nats.io, "Client Protocol". Pure and total.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"

namespace thinwire::transport {

// The longest line, without its end, and the most bytes behind one, of headers and body together.
inline constexpr size_t kMaxNatsLine = 64 << 10;
inline constexpr size_t kMaxNatsContent = 1 << 20;

enum class NatsVerb : uint8_t {
  kInfo,         // server: INFO json
  kConnect,      // client: CONNECT json
  kPublish,      // client: PUB and HPUB
  kSubscribe,    // client: SUB
  kUnsubscribe,  // client: UNSUB
  kDeliver,      // server: MSG and HMSG
  kPing,         // both
  kPong,         // both
  kOk,           // server: +OK
  kError,        // server: -ERR 'reason'
};

struct NatsFrame {
  NatsVerb verb = NatsVerb::kPing;
  Bytes raw = {};  // all of it, line ends included

  // kInfo, kConnect and kError: what follows the verb.
  std::string text = {};
  // kPublish and kDeliver; `reply` may be empty. kSubscribe: the subject, which may have wildcards.
  std::string subject = {};
  std::string reply = {};
  // kSubscribe, kUnsubscribe, kDeliver: the number of the subscription.
  std::string sid = {};
  // kUnsubscribe: whether it ends only after some more messages.
  bool later = false;
  // kPublish and kDeliver: where headers and body are in `raw`.
  size_t headers_at = 0;
  size_t body_at = 0;
  size_t body_end = 0;

  std::string_view headers() const {
    return {reinterpret_cast<const char*>(raw.data()) + headers_at, body_at - headers_at};
  }
  std::span<const uint8_t> body() const {
    return std::span(raw).subspan(body_at, body_end - body_at);
  }
};

// Cuts what arrives over a connection into messages. Not thread-safe.
class NatsFrameReader {
 public:
  void add(std::span<const uint8_t> bytes);
  // The next message that has arrived completely; nothing yet; or, from then on, kCorruptPayload:
  // what arrived is not this protocol.
  Result<std::optional<NatsFrame>> next();

 private:
  Bytes bytes_;
  size_t at_ = 0;       // of the first byte that no message has taken
  size_t scanned_ = 0;  // up to where there is no line end
  bool broken_ = false;
};

// Whether messages to `subject` go to a subscription to `pattern`: "*" stands for one part of a
// subject, ">" for all that follow.
bool subject_matches(std::string_view pattern, std::string_view subject);

// A message from a server, to be sent to a client.
Bytes deliver_frame(std::string_view subject, std::string_view sid, std::string_view headers,
                    std::span<const uint8_t> body);

}  // namespace thinwire::transport

#include "thinwire/transport/nats/join_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>

#include "thinwire/base/sha256.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/base32.h"
#include "thinwire/transport/nats/certificates.h"

namespace thinwire::transport {
namespace {

constexpr std::string_view kPrefix = "TW1";  // letters of base32, so that a double click takes all
constexpr size_t kCheckBytes = 8;
constexpr size_t kMaxText = 8 << 10;
constexpr size_t kMaxHost = 255;
constexpr int kMaxPort = 65535;

bool is_host(std::string_view host) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == ':' || c == '[' || c == ']';
  };
  return !host.empty() && host.size() <= kMaxHost && std::ranges::all_of(host, fits);
}

bool is_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || !is_host(text.substr(0, colon))) return false;
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc() && stop == end && port >= 1 && port <= kMaxPort;
}

auto refused(std::string_view what) {
  return fail(
      FailureKind::kCorruptPayload,
      fmt::format(
          "this is not a join token: {}; one begins with {} and is made of letters and digits",
          what, kPrefix));
}

}  // namespace

std::string encode_join_token(const JoinToken& token) {
  if (!is_address(token.address)) {
    throw UsageError(fmt::format("an address must be HOST:PORT, got {:?}", token.address));
  }
  check_courier_name("a run", token.run);
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(token.secret);
  writer.put_string(token.address);
  writer.put_string(token.run);
  const Bytes authority = certificate_bytes(token.authority);
  writer.put(static_cast<uint32_t>(authority.size()));
  writer.put_bytes(authority);
  const Sha256 check = sha256(bytes);
  writer.put_bytes(std::span(check.bytes).first(kCheckBytes));
  return std::string(kPrefix) + encode_base32(bytes);
}

Result<JoinToken> decode_join_token(std::string_view text) {
  if (text.size() > kMaxText) return refused(fmt::format("it has {} characters", text.size()));
  std::string letters;
  std::ranges::copy_if(text, std::back_inserter(letters),
                       [](char c) { return c != ' ' && c != '\t' && c != '\n' && c != '\r'; });
  if (!letters.starts_with(kPrefix)) return refused("it begins differently");
  const auto bytes = decode_base32(std::string_view(letters).substr(kPrefix.size()));
  if (!bytes || bytes->size() < kCheckBytes) return refused("some of it is missing or altered");
  const std::span<const uint8_t> all(*bytes);
  const auto content = all.first(all.size() - kCheckBytes);
  const Sha256 check = sha256(content);
  if (!std::ranges::equal(all.last(kCheckBytes), std::span(check.bytes).first(kCheckBytes))) {
    return refused("some of it is missing or altered");
  }
  ByteReader reader(content);
  JoinToken token;
  const auto secret = reader.get_bytes(token.secret.size());
  token.address = reader.get_string();
  token.run = reader.get_string();
  const auto authority = reader.get_bytes(reader.get<uint32_t>());
  if (!reader.at_end()) return refused("its parts have wrong lengths");
  std::ranges::copy(secret, token.secret.begin());
  if (!is_address(token.address)) return refused("its address is not HOST:PORT");
  if (!is_courier_name(token.run)) return refused("its run's name is invalid");
  const auto pem = certificate_text(authority);
  if (!pem) return refused("its certificate is invalid");
  token.authority = *pem;
  return token;
}

}  // namespace thinwire::transport

#include "thinwire/transport/nats/join_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>

#include "thinwire/base/sha256.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/certificates.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::transport {
namespace {

// Base32 digits, so that a double click selects the whole token.
constexpr std::string_view kPrefix = "TW1";         // of a run with a server of its own
constexpr std::string_view kClusterPrefix = "TW2";  // of one on a cluster
constexpr std::string_view kMailboxPrefix = "TW3";  // of one with a mailbox
constexpr std::string_view kSitesPrefix = "TW4";    // of one on a cluster whose servers are sites
constexpr size_t kCheckBytes = 8;
constexpr size_t kMaxText = 8 << 10;
constexpr size_t kMaxHost = 255;
constexpr int kMaxPort = 65535;
constexpr size_t kMaxAddresses = 64;

bool is_host(std::string_view host) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == ':' || c == '[' || c == ']';
  };
  return !host.empty() && host.size() <= kMaxHost && std::ranges::all_of(host, fits);
}

}  // namespace

bool is_token_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || !is_host(text.substr(0, colon))) return false;
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc() && stop == end && port >= 1 && port <= kMaxPort;
}

namespace {

// Three parts of base64url, separated by dots.
bool is_jwt(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return std::ranges::count(text, '.') == 2 && std::ranges::all_of(text, fits);
}

auto refused(std::string_view what) {
  return fail(FailureKind::kCorruptPayload,
              fmt::format("this is not a join token: {}; one begins with {}, {}, {} or {} and is "
                          "made of letters and digits",
                          what, kPrefix, kClusterPrefix, kMailboxPrefix, kSitesPrefix));
}

bool is_of_mailbox(const JoinToken& token) {
  return token.address.empty() && token.more_addresses.empty() && token.authority.empty() &&
         token.jwt.empty();
}

void check(const JoinToken& token) {
  check_courier_name("a run", token.run);
  if (is_of_mailbox(token)) return;
  std::vector<std::string> addresses = {token.address};
  addresses.insert(addresses.end(), token.more_addresses.begin(), token.more_addresses.end());
  for (const std::string& address : addresses) {
    if (is_token_address(address)) continue;
    throw UsageError(fmt::format(
        "the address of a token must be HOST:PORT with a HOST of letters, digits, '-' and "
        "'.', or an IPv6 address in [], and a port from 1 to {}, got {:?}",
        kMaxPort, address));
  }
  if (addresses.size() > kMaxAddresses) {
    throw UsageError(
        fmt::format("a token holds at most {} addresses, got {}", kMaxAddresses, addresses.size()));
  }
  if (!token.jwt.empty() && !is_jwt(token.jwt)) {
    throw UsageError(fmt::format("a JWT must be three parts of base64url, got {:?}", token.jwt));
  }
  if (token.sites && token.jwt.empty()) throw UsageError("only a cluster's servers can be sites");
}

// Reads what only a cluster's token holds. False: it is invalid.
bool read_cluster(ByteReader& reader, JoinToken& token) {
  const auto count = reader.get<uint32_t>();
  if (count >= kMaxAddresses) return false;
  for (uint32_t i = 0; i < count; ++i) token.more_addresses.push_back(reader.get_string());
  token.jwt = reader.get_string();
  return std::ranges::all_of(token.more_addresses, is_token_address) && is_jwt(token.jwt);
}

Result<JoinToken> read_token(std::span<const uint8_t> content, bool cluster) {
  ByteReader reader(content);
  JoinToken token;
  const auto secret = reader.get_bytes(token.secret.size());
  token.address = reader.get_string();
  token.run = reader.get_string();
  const auto authority = reader.get_bytes(reader.get<uint32_t>());
  const bool reachable = !cluster || read_cluster(reader, token);
  if (!reader.at_end()) return refused("its parts have wrong lengths");
  std::ranges::copy(secret, token.secret.begin());
  if (!reachable || !is_token_address(token.address)) {
    return refused("its addresses are not HOST:PORT, or its JWT is invalid");
  }
  if (!is_courier_name(token.run)) return refused("its run's name is invalid");
  if (cluster && authority.empty()) return token;
  const auto pem = certificate_text(authority);
  if (!pem) return refused("its certificate is invalid");
  token.authority = *pem;
  return token;
}

Result<JoinToken> read_mailbox_token(std::span<const uint8_t> content) {
  ByteReader reader(content);
  JoinToken token;
  const auto secret = reader.get_bytes(token.secret.size());
  token.run = reader.get_string();
  if (!reader.at_end()) return refused("its parts have wrong lengths");
  std::ranges::copy(secret, token.secret.begin());
  if (!is_courier_name(token.run)) return refused("its run's name is invalid");
  return token;
}

std::string with_check(std::string_view prefix, Bytes bytes) {
  const Sha256 hash = sha256(bytes);
  ByteWriter(bytes).put_bytes(std::span(hash.bytes).first(kCheckBytes));
  return std::string(prefix) + encode_base32(bytes);
}

}  // namespace

std::string encode_join_token(const JoinToken& token) {
  check(token);
  const bool cluster = !token.jwt.empty();
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(token.secret);
  if (is_of_mailbox(token)) {
    writer.put_string(token.run);
    return with_check(kMailboxPrefix, std::move(bytes));
  }
  writer.put_string(token.address);
  writer.put_string(token.run);
  const bool trusts_system = cluster && token.authority.empty();
  const Bytes authority = trusts_system ? Bytes() : certificate_bytes(token.authority);
  writer.put(static_cast<uint32_t>(authority.size()));
  writer.put_bytes(authority);
  if (cluster) {
    writer.put(static_cast<uint32_t>(token.more_addresses.size()));
    for (const std::string& address : token.more_addresses) writer.put_string(address);
    writer.put_string(token.jwt);
  }
  if (token.sites) return with_check(kSitesPrefix, std::move(bytes));
  return with_check(cluster ? kClusterPrefix : kPrefix, std::move(bytes));
}

Result<JoinToken> decode_join_token(std::string_view text) {
  if (text.size() > kMaxText) return refused(fmt::format("it has {} characters", text.size()));
  std::string letters;
  std::ranges::copy_if(text, std::back_inserter(letters),
                       [](char c) { return c != ' ' && c != '\t' && c != '\n' && c != '\r'; });
  const bool sites = letters.starts_with(kSitesPrefix);
  const bool cluster = sites || letters.starts_with(kClusterPrefix);
  const bool mailbox = letters.starts_with(kMailboxPrefix);
  if (!cluster && !mailbox && !letters.starts_with(kPrefix)) {
    return refused("it begins differently");
  }
  const auto bytes = decode_base32(std::string_view(letters).substr(kPrefix.size()));
  if (!bytes || bytes->size() < kCheckBytes) return refused("some of it is missing or altered");
  const std::span<const uint8_t> all(*bytes);
  const auto content = all.first(all.size() - kCheckBytes);
  const Sha256 hash = sha256(content);
  if (!std::ranges::equal(all.last(kCheckBytes), std::span(hash.bytes).first(kCheckBytes))) {
    return refused("some of it is missing or altered");
  }
  if (mailbox) return read_mailbox_token(content);
  Result<JoinToken> token = read_token(content, cluster);
  if (token) token->sites = sites;
  return token;
}

}  // namespace thinwire::transport

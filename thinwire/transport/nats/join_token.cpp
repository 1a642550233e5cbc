#include "thinwire/transport/nats/join_token.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <span>

#include "thinwire/base/digest.h"
#include "thinwire/base/nkey.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/certificates.h"

namespace thinwire::transport {
namespace {

// Letters and digits only, so that a double click selects the whole token.
constexpr std::string_view kClusterPrefix = "TW2";  // of a run on a cluster
constexpr std::string_view kSitesPrefix = "TW4";    // of one on a cluster whose servers are sites
constexpr std::string_view kServerPrefix = "TW5";   // of one with a server of its own
constexpr std::string_view kMailboxPrefix = "TW6";  // of one with a mailbox
constexpr size_t kSecretBytes = 16;
constexpr size_t kShortCheckBytes = 4;
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
                          what, kServerPrefix, kMailboxPrefix, kClusterPrefix, kSitesPrefix));
}

void check_cluster(const JoinToken& token) {
  check_courier_name("a run", token.run);
  for (const std::string& address : token.servers) {
    if (is_token_address(address)) continue;
    throw UsageError(fmt::format(
        "the address of a token must be HOST:PORT with a HOST of letters, digits, '-' and "
        "'.', or an IPv6 address in [], and a port from 1 to {}, got {:?}",
        kMaxPort, address));
  }
  if (token.servers.empty() || token.servers.size() > kMaxAddresses) {
    throw UsageError(fmt::format("a token holds 1 to {} addresses, got {}", kMaxAddresses,
                                 token.servers.size()));
  }
  if (!is_jwt(token.jwt)) {
    throw UsageError(fmt::format("a JWT must be three parts of base64url, got {:?}", token.jwt));
  }
}

// Base58: the digits and letters that are not taken for one another, of a number with a fixed count
// of digits.
constexpr std::string_view kDigits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

size_t digits_for(size_t bytes) { return (bytes * 1366 + 999) / 1000; }  // 1366 > 1000 log58(256)

std::string encode_base58(std::span<const uint8_t> bytes) {
  std::vector<uint8_t> digits(digits_for(bytes.size()));  // the smallest first
  for (const uint8_t byte : bytes) {
    uint32_t carry = byte;
    for (uint8_t& digit : digits) {
      carry += uint32_t{digit} << 8;
      digit = static_cast<uint8_t>(carry % kDigits.size());
      carry /= kDigits.size();
    }
  }
  std::string text;
  for (const uint8_t digit : digits) text.insert(text.begin(), kDigits[digit]);
  return text;
}

// Nothing unless encode_base58 makes this text of so many bytes.
std::optional<Bytes> decode_base58(std::string_view text, size_t size) {
  if (text.size() != digits_for(size)) return std::nullopt;
  Bytes bytes(size);
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) return std::nullopt;
    auto carry = static_cast<uint32_t>(digit);
    for (size_t i = size; i-- > 0;) {
      carry += static_cast<uint32_t>(bytes[i] * kDigits.size());
      bytes[i] = static_cast<uint8_t>(carry);
      carry >>= 8;
    }
    if (carry != 0) return std::nullopt;
  }
  return bytes;
}

// Nothing if the last bytes are not the first of the hash of those before.
std::optional<std::span<const uint8_t>> checked(std::span<const uint8_t> bytes, size_t check) {
  if (bytes.size() < check) return std::nullopt;
  const auto content = bytes.first(bytes.size() - check);
  const Sha256 hash = sha256(content);
  if (!std::ranges::equal(bytes.last(check), std::span(hash.bytes).first(check))) {
    return std::nullopt;
  }
  return content;
}

void put_check(Bytes& bytes, size_t check) {
  const Sha256 hash = sha256(bytes);
  ByteWriter(bytes).put_bytes(std::span(hash.bytes).first(check));
}

std::string encode_short(const JoinToken& token) {
  const auto run = decode_public_key(NKeyKind::kUser, token.run);
  if (!run)
    throw UsageError(fmt::format("a run's name must be that of a key, got {:?}", token.run));
  if (!is_token_secret(token.secret)) {
    throw UsageError("a token's secret must be made by make_token_secret");
  }
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(std::span(token.secret).first(kSecretBytes));
  writer.put_bytes(run->bytes);
  if (token.authority_fingerprint) writer.put_bytes(token.authority_fingerprint->bytes);
  put_check(bytes, kShortCheckBytes);
  return std::string(token.is_of_mailbox() ? kMailboxPrefix : kServerPrefix) + encode_base58(bytes);
}

Result<JoinToken> decode_short(std::string_view digits, bool mailbox) {
  JoinToken token;
  PublicKey run;
  Fingerprint fingerprint;
  const size_t size =
      kSecretBytes + run.bytes.size() + (mailbox ? 0 : fingerprint.bytes.size()) + kShortCheckBytes;
  const auto bytes = decode_base58(digits, size);
  const auto content = bytes ? checked(*bytes, kShortCheckBytes) : std::nullopt;
  if (!content) return refused("some of it is missing or altered");
  ByteReader reader(*content);
  std::ranges::copy(reader.get_bytes(kSecretBytes), token.secret.begin());
  std::ranges::copy(reader.get_bytes(run.bytes.size()), run.bytes.begin());
  token.run = encode_public_key(NKeyKind::kUser, run);
  if (!mailbox) {
    std::ranges::copy(reader.get_bytes(fingerprint.bytes.size()), fingerprint.bytes.begin());
    token.authority_fingerprint = fingerprint;
  }
  return token;
}

std::string encode_cluster(const JoinToken& token) {
  check_cluster(token);
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(token.secret);
  writer.put_string(token.servers.front());
  writer.put_string(token.run);
  const Bytes authority = token.authority.empty() ? Bytes() : certificate_bytes(token.authority);
  writer.put(static_cast<uint32_t>(authority.size()));
  writer.put_bytes(authority);
  writer.put(static_cast<uint32_t>(token.servers.size() - 1));
  for (const std::string& address : std::span(token.servers).subspan(1)) {
    writer.put_string(address);
  }
  writer.put_string(token.jwt);
  put_check(bytes, kCheckBytes);
  return std::string(token.sites ? kSitesPrefix : kClusterPrefix) + encode_base32(bytes);
}

Result<JoinToken> decode_cluster(std::string_view digits, bool sites) {
  const auto bytes = decode_base32(digits);
  const auto content = bytes ? checked(*bytes, kCheckBytes) : std::nullopt;
  if (!content) return refused("some of it is missing or altered");
  ByteReader reader(*content);
  JoinToken token;
  token.sites = sites;
  std::ranges::copy(reader.get_bytes(token.secret.size()), token.secret.begin());
  token.servers.push_back(reader.get_string());
  token.run = reader.get_string();
  const auto authority = reader.get_bytes(reader.get<uint32_t>());
  const auto count = reader.get<uint32_t>();
  for (uint32_t i = 0; i < std::min<uint32_t>(count, kMaxAddresses); ++i) {
    token.servers.push_back(reader.get_string());
  }
  token.jwt = reader.get_string();
  if (!reader.at_end()) return refused("its parts have wrong lengths");
  if (count >= kMaxAddresses || !std::ranges::all_of(token.servers, is_token_address) ||
      !is_jwt(token.jwt)) {
    return refused("its addresses are not HOST:PORT, or its JWT is invalid");
  }
  if (!is_courier_name(token.run)) return refused("its run's name is invalid");
  if (authority.empty()) return token;
  const auto pem = certificate_text(authority);
  if (!pem) return refused("its certificate is invalid");
  token.authority = *pem;
  return token;
}

}  // namespace

Seed make_token_secret() {
  Seed seed = make_seed();
  std::fill(seed.begin() + kSecretBytes, seed.end(), uint8_t{0});
  return seed;
}

bool is_token_secret(const Seed& seed) {
  return std::all_of(seed.begin() + kSecretBytes, seed.end(),
                     [](uint8_t byte) { return byte == 0; });
}

std::string encode_join_token(const JoinToken& token) {
  return token.is_of_cluster() ? encode_cluster(token) : encode_short(token);
}

Result<JoinToken> decode_join_token(std::string_view text) {
  if (text.size() > kMaxText) return refused(fmt::format("it has {} characters", text.size()));
  std::string letters;
  std::ranges::copy_if(text, std::back_inserter(letters),
                       [](char c) { return c != ' ' && c != '\t' && c != '\n' && c != '\r'; });
  const std::string_view all = letters;
  const auto begins = [&](std::string_view prefix) { return all.starts_with(prefix); };
  if (begins("TW1") || begins("TW3")) {
    return refused("it was made by an older version; ask the run's owner for a new one");
  }
  const std::string_view digits = all.substr(std::min(all.size(), kServerPrefix.size()));
  if (begins(kServerPrefix) || begins(kMailboxPrefix)) {
    return decode_short(digits, begins(kMailboxPrefix));
  }
  if (begins(kClusterPrefix) || begins(kSitesPrefix)) {
    return decode_cluster(digits, begins(kSitesPrefix));
  }
  return refused("it begins differently");
}

}  // namespace thinwire::transport

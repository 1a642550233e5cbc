#include "thinwire/hosts/cluster.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/sha256.h"
#include "thinwire/hosts/endpoint.h"
#include "thinwire/transport/nats/certificates.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

using transport::NKeyKind;

constexpr std::string_view kSchemes[] = {"tls://", "nats://"};
constexpr const char* kDefaultPort = ":4222";

std::string parse_server(const std::string& url) {
  std::string address = url;
  for (const std::string_view scheme : kSchemes) {
    if (url.starts_with(scheme)) address = url.substr(scheme.size());
  }
  if (address.find('@') != std::string::npos) {
    throw UsageError(
        "--nats must not contain users or passwords: --creds gives access to the cluster");
  }
  const size_t after_host = address.rfind(']');  // of an IPv6 address
  if (address.find(':', after_host == std::string::npos ? 0 : after_host) == std::string::npos) {
    address += kDefaultPort;
  }
  const Endpoint endpoint = parse_endpoint("--nats", address);
  if (endpoint.port == 0) {
    throw UsageError(fmt::format("--nats must name the servers' ports, got '{}'", url));
  }
  return near_address(endpoint, endpoint.port);
}

[[noreturn]] void throw_no_key(const std::string& what) {
  throw UsageError(fmt::format(
      "--creds: {}; the file must hold the seed of the account's key, which begins with SA, or of "
      "one of its signing keys and, on another line, the account's public key, which begins with A "
      "(docs/operations.md)",
      what));
}

}  // namespace

std::vector<std::string> parse_servers(const std::string& urls) {
  std::vector<std::string> servers;
  std::istringstream in(urls);
  for (std::string url; std::getline(in, url, ',');) servers.push_back(parse_server(url));
  if (servers.empty()) throw UsageError("--nats must name at least one server as HOST:PORT");
  return servers;
}

std::string read_authority(const fs::path& ca_file) {
  if (ca_file.empty()) return "";
  std::string authority = read_text_file(ca_file);
  try {
    (void)transport::certificate_bytes(authority);
  } catch (const Error& problem) {
    throw UsageError(fmt::format("--ca {}: {}", ca_file.string(), problem.what()));
  }
  return authority;
}

transport::AccountKey parse_account_key(const std::string& text) {
  std::optional<Seed> seed;
  std::optional<PublicKey> account;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;) {
      if (transport::decode_seed(NKeyKind::kUser, word)) {
        throw_no_key("it holds the credentials of a user, who cannot admit members");
      }
      if (const auto found = transport::decode_seed(NKeyKind::kAccount, word)) seed = found;
      if (const auto found = transport::decode_public_key(NKeyKind::kAccount, word)) {
        account = found;
      }
    }
  }
  if (!seed) throw_no_key("there is no seed of an account's key in it");
  return {account.value_or(make_signer(*seed)->key()), *seed};
}

std::string print_account_key(const transport::AccountKey& key, const std::string& comment) {
  return fmt::format("# {}\n{}\n{}\n", comment,
                     transport::encode_public_key(NKeyKind::kAccount, key.account),
                     transport::encode_seed(NKeyKind::kAccount, key.secret));
}

Seed coordinators_seed(const transport::AccountKey& account, uint64_t run,
                       const std::string& name) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_string("thinwire coordinators of a run");
  writer.put_bytes(account.secret);
  writer.put_bytes(account.account.bytes);
  writer.put(run);
  writer.put_string(name);
  return sha256(bytes).bytes;
}

}  // namespace thinwire::hosts

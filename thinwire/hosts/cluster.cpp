#include "thinwire/hosts/cluster.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <sstream>
#include <string_view>

#include "thinwire/base/bytes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/certificates.h"
#include "thinwire/transport/nats/nats_jwt.h"

namespace thinwire::hosts {
namespace {

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
  const Endpoint endpoint = parse_address("--nats", address);
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
      if (decode_seed(NKeyKind::kUser, word)) {
        throw_no_key("it holds the credentials of a user, who cannot admit members");
      }
      if (const auto found = decode_seed(NKeyKind::kAccount, word)) seed = found;
      if (const auto found = decode_public_key(NKeyKind::kAccount, word)) {
        account = found;
      }
    }
  }
  if (!seed) throw_no_key("there is no seed of an account's key in it");
  return {account.value_or(make_signer(*seed)->key()), *seed};
}

std::string print_account_key(const transport::AccountKey& key, const std::string& comment) {
  return fmt::format("# {}\n{}\n{}\n", comment, encode_public_key(NKeyKind::kAccount, key.account),
                     encode_seed(NKeyKind::kAccount, key.secret));
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

namespace {

using transport::AccountKey;

constexpr const char* kOperator = "operator";
constexpr const char* kSystem = "SYS";
constexpr const char* kExtension = ".key";
constexpr const char* kConfigurationFile = "accounts.conf";

fs::path key_file(const fs::path& folder, const std::string& name) {
  return folder / (name + kExtension);
}

void make_account_key(const fs::path& file, const std::string& comment) {
  const Seed seed = make_seed();
  write_file(file, print_account_key({make_signer(seed)->key(), seed}, comment));
}

// The keys of all accounts, by name.
std::map<std::string, AccountKey> load_accounts(const fs::path& folder) {
  std::map<std::string, AccountKey> accounts;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path& file = entry.path();
    if (file.extension() != kExtension || file.stem() == kOperator) continue;
    try {
      accounts.emplace(file.stem(), parse_account_key(read_text_file(file)));
    } catch (const UsageError&) {
      throw Error(fmt::format("{} does not hold the key of an account", file.string()));
    }
  }
  return accounts;
}

std::string account_name(const PublicKey& key) {
  return encode_public_key(NKeyKind::kAccount, key);
}

std::string configuration(const Signer& operator_key,
                          const std::map<std::string, AccountKey>& accounts) {
  const auto now = static_cast<int64_t>(unix_seconds());
  const PublicKey system = accounts.at(kSystem).account;
  std::string text =
      "# The operator and accounts of a cluster. Written by `thinwire keys account`; each "
      "server's\n"
      "# configuration includes it.\n";
  text += fmt::format("operator: \"{}\"\n", transport::operator_jwt(operator_key, system, now));
  text += fmt::format("system_account: {}\nresolver: MEMORY\nresolver_preload: {{\n",
                      account_name(system));
  for (const auto& [name, key] : accounts) {
    const std::string jwt =
        name == kSystem ? transport::system_account_jwt(operator_key, system, now)
                        : transport::account_jwt(operator_key, name, key.account, system, now);
    text += fmt::format("  {}: \"{}\"  # {}\n", account_name(key.account), jwt, name);
  }
  return text + "}\n";
}

}  // namespace

ClusterAccount add_account(const fs::path& folder, const std::string& name) {
  transport::check_courier_name("the NAME of an account", name);
  const fs::path key = key_file(folder, name);
  if (name == kOperator || name == kSystem || fs::exists(key)) {
    throw UsageError(fmt::format("the NAME {} is taken in {}; choose another one for the account",
                                 name, folder.string()));
  }
  make_private_folder(folder);
  const Seed seed = load_or_make_seed(key_file(folder, kOperator), NKeyKind::kOperator);
  const fs::path system = key_file(folder, kSystem);
  if (!fs::exists(system)) make_account_key(system, "The system account, to which servers report");
  make_account_key(key,
                   fmt::format("Account {}: whoever has this key can admit participants", name));
  const fs::path file = folder / kConfigurationFile;
  write_file(file, configuration(*make_signer(seed), load_accounts(folder)));
  return {file, key};
}

}  // namespace thinwire::hosts

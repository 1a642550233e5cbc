#include "thinwire/hosts/cluster_accounts.h"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/secrets.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/nats_jwt.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

using transport::AccountKey;
using transport::NKeyKind;

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
  return transport::encode_public_key(NKeyKind::kAccount, key);
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

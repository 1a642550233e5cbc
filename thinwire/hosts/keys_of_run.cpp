#include "thinwire/hosts/keys_of_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/transport/nats/join_token.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr double kDaySeconds = 24 * 3600;

int64_t unix_now() { return static_cast<int64_t>(unix_seconds()); }

std::string date(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

void check_served(const fs::path& run_folder) {
  if (fs::exists(run_folder / kServerFolder / kAddressFile)) return;
  throw UsageError(fmt::format("{} is not the folder of a run that `thinwire serve` has served",
                               run_folder.string()));
}

std::string state_of(const IssuedToken& token, const KeyRing& ring) {
  if (token.revoked) return "revoked";
  if (token.expires != 0 && token.expires <= unix_now()) return "expired";
  const auto uses = std::ranges::count(ring.keys, token.key, &EnrolledKey::token);
  if (token.single_use) return uses > 0 ? "used" : "unused, for one key";
  return fmt::format("used by {}", counted(static_cast<int64_t>(uses), "key"));
}

}  // namespace

report::Table list_keys(const fs::path& run_folder) {
  check_served(run_folder);
  const KeyRing ring = load_key_ring(run_folder);
  report::Table table{{{"id", true},
                       {"kind", true},
                       {"role", true},
                       {"since (UTC)", true},
                       {"until (UTC)", true},
                       {"state", true}},
                      {}};
  for (const IssuedToken& token : ring.tokens) {
    table.rows.push_back({key_id(token.key), "token", std::string(name_of(token.role)),
                          date(token.issued), token.expires == 0 ? "" : date(token.expires),
                          state_of(token, ring)});
  }
  for (const EnrolledKey& key : ring.keys) {
    table.rows.push_back({key_id(key.key), "key", std::string(name_of(key.role)),
                          date(key.enrolled), "",
                          key.revoked ? "revoked" : "by token " + key_id(key.token)});
  }
  return table;
}

std::string issue_token(const fs::path& run_folder, Role role, double days, bool single_use) {
  check_served(run_folder);
  const fs::path server = run_folder / kServerFolder;
  const Seed secret = make_seed();
  const Seed coordinator = coordinator_seed(run_folder);
  const transport::JoinToken token{read_text_file(server / kAddressFile),
                                   transport::participant_name(make_signer(coordinator)->key()),
                                   read_text_file(server / kAuthorityFile), secret};
  std::string text = transport::encode_join_token(token);
  update_key_ring(run_folder, [&](KeyRing& ring) {
    const int64_t now = unix_now();
    ring.tokens.push_back({make_signer(secret)->key(), role, now,
                           days > 0 ? now + static_cast<int64_t>(days * kDaySeconds) : 0,
                           single_use, false});
  });
  return text;
}

std::string revoke_keys(const fs::path& run_folder, const std::string& id) {
  check_served(run_folder);
  size_t count = 0;
  update_key_ring(run_folder, [&](KeyRing& ring) {
    const auto matches = [&](const auto& one) { return key_id(one.key).starts_with(id); };
    const auto owners =
        std::ranges::count_if(ring.tokens, matches) + std::ranges::count_if(ring.keys, matches);
    if (id.empty() || owners != 1) {
      throw UsageError(
          fmt::format("id must be that of one token or key, '{}' begins {}; `thinwire "
                      "keys list` shows them",
                      id, owners == 0 ? "none" : fmt::format("{}", owners)));
    }
    count = ring.revoke(id);
  });
  return count > 1 ? fmt::format("revoked the token and {}",
                                 counted(static_cast<int64_t>(count - 1), "key"))
                   : "revoked";
}

}  // namespace thinwire::hosts

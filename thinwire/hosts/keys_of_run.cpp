#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/transport/nats/join_token.h"

namespace thinwire::hosts {
namespace {

int64_t unix_now() { return static_cast<int64_t>(unix_seconds()); }

std::string date(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

void check_served(const fs::path& run_folder) {
  if (served_by(run_folder / kServerFolder).has_value()) return;
  const std::string runs = checkpoint::runs_within(run_folder, {checkpoint::FolderOwner::kServe});
  throw UsageError(fmt::format(
      "{} is not the folder of a run that `thinwire serve` has served{}", run_folder.string(),
      runs.empty() ? "" : "; name one of those in it (newest first): " + runs));
}

std::string state_of(const IssuedToken& token, const KeyRing& ring) {
  if (token.revoked) return "revoked";
  if (token.expires != 0 && token.expires <= unix_now()) return "expired";
  const auto uses = std::ranges::count(ring.keys, token.key, &EnrolledKey::token);
  if (token.single_use) return uses > 0 ? "used" : "unused, for one key";
  return fmt::format("used by {}", counted(static_cast<int64_t>(uses), "key"));
}

}  // namespace

KeyRing keys_of_run(const fs::path& run_folder) {
  check_served(run_folder);
  return load_key_ring(run_folder);
}

report::Table list_keys(const fs::path& run_folder) {
  const KeyRing ring = keys_of_run(run_folder);
  report::Table table{{{"id", true},
                       {"kind", true},
                       {"role", true},
                       {"since (UTC)", true},
                       {"until (UTC)", true},
                       {"member"},
                       {"state", true}},
                      {}};
  for (const IssuedToken& token : ring.tokens) {
    table.rows.push_back({key_id(token.key), "token", std::string(name_of(token.role)),
                          date(token.issued), token.expires == 0 ? "" : date(token.expires), "",
                          state_of(token, ring)});
  }
  for (const EnrolledKey& key : ring.keys) {
    table.rows.push_back({key_id(key.key), "key", std::string(name_of(key.role)),
                          date(key.enrolled), "", key.member < 0 ? "" : std::to_string(key.member),
                          key.revoked ? "revoked" : "by token " + key_id(key.token)});
  }
  return table;
}

std::string issue_token(const fs::path& run_folder, Role role, double days, bool single_use) {
  check_served(run_folder);
  const Seed secret = transport::make_token_secret();
  const Seed coordinator = coordinator_seed(run_folder);
  IssuedToken token = make_token(make_signer(secret)->key(), role, days, unix_now());
  token.single_use = single_use;
  std::string text =
      load_entrance(run_folder / kServerFolder)
          ->token(participant_name(make_signer(coordinator)->key()), secret, token.expires);
  update_key_ring(run_folder, [&](KeyRing& ring) { ring.tokens.push_back(token); });
  return text;
}

namespace {

// What an id names has at least so many, so that a slip of the keyboard revokes nothing.
constexpr size_t kFewestCharacters = 4;

// "revoked key AP7CXUNKE2 (member 3)"
std::string what_was_revoked(const KeyRing& revoked, const std::string& id) {
  if (revoked.tokens.empty() && revoked.keys.empty()) return id + " was revoked before";
  std::string text = "revoked ";
  if (!revoked.tokens.empty()) {
    text += "token " + key_id(revoked.tokens.front().key);
    if (!revoked.keys.empty()) text += " and with it ";
  }
  std::vector<std::string> ids;
  for (const EnrolledKey& key : revoked.keys) {
    ids.push_back(key_id(key.key) +
                  (key.member < 0 ? "" : fmt::format(" (member {})", key.member)));
  }
  if (ids.empty()) return text;
  return text + fmt::format("key{} {}", ids.size() > 1 ? "s" : "", fmt::join(ids, ", "));
}

}  // namespace

std::string revoke_keys(const fs::path& run_folder, const std::string& id) {
  check_served(run_folder);
  KeyRing revoked;
  update_key_ring(run_folder, [&](KeyRing& ring) {
    const auto matches = [&](const auto& one) { return is_called(one.key, id); };
    const auto owners =
        std::ranges::count_if(ring.tokens, matches) + std::ranges::count_if(ring.keys, matches);
    if (id.size() < kFewestCharacters) {
      throw UsageError(fmt::format(
          "'{}' is too short; give at least the first {} characters of an id from `thinwire keys "
          "list`",
          id, kFewestCharacters));
    }
    if (owners != 1) {
      throw UsageError(
          fmt::format("'{}' is the start of {} ids; give that of one token or key from "
                      "`thinwire keys list`",
                      id, owners == 0 ? "no" : fmt::format("{}", owners)));
    }
    const KeyRing before = ring;
    (void)ring.revoke(id);
    revoked = ring.beyond(before);
  });
  std::vector<PublicKey> keys;
  for (const IssuedToken& token : revoked.tokens) keys.push_back(token.key);
  for (const EnrolledKey& key : revoked.keys) keys.push_back(key.key);
  return what_was_revoked(revoked, id) +
         load_entrance(run_folder / kServerFolder)->after_revoking(keys);
}

}  // namespace thinwire::hosts

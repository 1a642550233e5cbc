#include "thinwire/hosts/key_ring.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/base/names.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/rng.h"

namespace thinwire::hosts {
namespace {

using Json = nlohmann::json;

constexpr const char* kFile = "keys.json";
constexpr const char* kLock = "keys.lock";
constexpr const char* kFormat = "thinwire-keys";
constexpr int kVersion = 1;
constexpr double kLockTimeoutSeconds = 10;
constexpr int kIndent = 2;
constexpr double kDaySeconds = 24 * 3600;

PublicKey read_key(const Json& json) {
  const auto key = decode_public_key(NKeyKind::kUser, json.get<std::string>());
  if (!key) throw Error("an invalid key");
  return *key;
}

Role read_role(const Json& json) {
  const auto role = value_named<Role>(json.get<std::string>());
  if (!role) throw Error("an unknown role");
  return *role;
}

Json print(const IssuedToken& token) {
  return {{"key", participant_name(token.key)},
          {"role", name_of(token.role)},
          {"issued", token.issued},
          {"expires", token.expires},
          {"single_use", token.single_use},
          {"revoked", token.revoked}};
}

Json print(const EnrolledKey& key) {
  Json json = {{"key", participant_name(key.key)},
               {"token", participant_name(key.token)},
               {"role", name_of(key.role)},
               {"enrolled", key.enrolled},
               {"revoked", key.revoked}};
  if (key.member >= 0) json["member"] = key.member;
  if (!key.machine.empty()) json["machine"] = key.machine;
  return json;
}

// Adds an entry of another ring; one that is known is revoked if it is revoked there.
template <typename Entry>
void take_in(std::vector<Entry>& entries, const Entry& other) {
  const auto known = std::ranges::find(entries, other.key, &Entry::key);
  if (known == entries.end()) {
    entries.push_back(other);
  } else {
    known->revoked = known->revoked || other.revoked;
  }
}

// The entries that take_in would add to `others` or revoke there.
template <typename Entry>
std::vector<Entry> news(const std::vector<Entry>& entries, const std::vector<Entry>& others) {
  std::vector<Entry> news;
  for (const Entry& entry : entries) {
    const auto known = std::ranges::find(others, entry.key, &Entry::key);
    if (known == others.end() || (entry.revoked && !known->revoked)) news.push_back(entry);
  }
  return news;
}

transport::NatsRole role_of(Role role) {
  switch (role) {
    case Role::kMember:
      return transport::NatsRole::kMember;
    case Role::kAuditor:
      return transport::NatsRole::kAuditor;
    case Role::kObserver:
      break;
  }
  return transport::NatsRole::kObserver;
}

// Why nobody takes part in another way with a token or key of this role.
std::string why_other_role(std::string_view what, const PublicKey& key, Role role) {
  constexpr std::string_view kUses[] = {
      "trains with `thinwire join`; who audits needs an auditor's token",
      "only shows the run, with `thinwire status`; who trains needs a member's token",
      "checks what members send, with `thinwire join --audit`; who trains needs a member's token"};
  return fmt::format("the {} {} is {} {}'s: it {} (`thinwire keys issue --role`)", what,
                     key_id(key), role == Role::kMember ? "a" : "an", name_of(role),
                     kUses[static_cast<size_t>(role)]);
}

}  // namespace

std::string print_key_ring(const KeyRing& ring, int indent) {
  Json tokens = Json::array(), keys = Json::array();
  for (const IssuedToken& token : ring.tokens) tokens.push_back(print(token));
  for (const EnrolledKey& key : ring.keys) keys.push_back(print(key));
  const Json all = {{"format", kFormat}, {"version", kVersion}, {"tokens", tokens}, {"keys", keys}};
  return print_json(all, {.indent = indent});
}

KeyRing read_key_ring(std::string_view text) {
  const auto json = parse_json<Json>(text);
  if (json.at("format") != kFormat || json.at("version") != kVersion) {
    throw Error("another format or version");
  }
  KeyRing ring;
  for (const Json& one : json.at("tokens")) {
    ring.tokens.push_back({read_key(one.at("key")), read_role(one.at("role")), one.at("issued"),
                           one.at("expires"), one.at("single_use"), one.at("revoked")});
  }
  for (const Json& one : json.at("keys")) {
    ring.keys.push_back({read_key(one.at("key")), read_key(one.at("token")),
                         read_role(one.at("role")), one.at("enrolled"), one.at("revoked"),
                         one.value("member", -1), one.value("machine", "")});
  }
  return ring;
}

IssuedToken make_token(const PublicKey& key, Role role, double days, int64_t now) {
  const int64_t expires = days > 0 ? now + static_cast<int64_t>(days * kDaySeconds) : 0;
  return {.key = key, .role = role, .issued = now, .expires = expires};
}

bool is_called(const PublicKey& key, std::string_view text) {
  return key_id(key).starts_with(text) || participant_name(key).starts_with(text);
}

std::string label_of(const PublicKey& key, const std::string& machine) {
  return key_id(key) + (machine.empty() ? "" : ", " + machine);
}

std::string KeyRing::enrol(const PublicKey& token, const PublicKey& key, int64_t now,
                           std::optional<Role> wanted, const std::string& machine) {
  const auto issued = std::ranges::find(tokens, token, &IssuedToken::key);
  if (issued == tokens.end()) return "the token does not belong to this run";
  if (issued->revoked) return "the token was revoked";
  if (issued->expires != 0 && issued->expires <= now) return "the token has expired";
  if (const auto known = std::ranges::find(keys, key, &EnrolledKey::key); known != keys.end()) {
    if (known->revoked) return "the key was revoked";
    return wanted && *wanted != known->role ? why_other_role("key", known->key, known->role) : "";
  }
  if (wanted && *wanted != issued->role) return why_other_role("token", token, issued->role);
  const bool used = std::ranges::find(keys, token, &EnrolledKey::token) != keys.end();
  if (issued->single_use && used) return "the token has been used";
  keys.push_back(
      {.key = key, .token = token, .role = issued->role, .enrolled = now, .machine = machine});
  return "";
}

size_t KeyRing::revoke(std::string_view id) {
  size_t count = 0;
  for (IssuedToken& token : tokens) {
    if (!is_called(token.key, id)) continue;
    token.revoked = true;
    ++count;
  }
  for (EnrolledKey& key : keys) {
    const auto token = std::ranges::find(tokens, key.token, &IssuedToken::key);
    const bool of_token = token != tokens.end() && is_called(token->key, id);
    if (!of_token && !is_called(key.key, id)) continue;
    key.revoked = true;
    ++count;
  }
  return count;
}

void KeyRing::merge(const KeyRing& other) {
  for (const IssuedToken& token : other.tokens) take_in(tokens, token);
  for (const EnrolledKey& key : other.keys) take_in(keys, key);
}

KeyRing KeyRing::beyond(const KeyRing& other) const {
  return {news(tokens, other.tokens), news(keys, other.keys)};
}

std::vector<transport::NatsUser> KeyRing::users() const {
  std::vector<transport::NatsUser> users;
  for (const IssuedToken& token : tokens) {
    users.push_back({participant_name(token.key), token.key, transport::NatsRole::kNewcomer,
                     token.expires, token.revoked});
  }
  for (const EnrolledKey& key : keys) {
    users.push_back({participant_name(key.key), key.key, role_of(key.role), 0, key.revoked});
  }
  return users;
}

KeyRing load_key_ring(const fs::path& run_folder) {
  const fs::path file = run_folder / kFile;
  if (!fs::exists(file)) return {};
  try {
    return read_key_ring(read_text_file(file));
  } catch (const std::exception& problem) {
    throw Error(fmt::format("{} is damaged: {}", file.string(), problem.what()));
  }
}

void update_key_ring(const fs::path& run_folder, const std::function<void(KeyRing&)>& change) {
  const FolderLock lock(
      run_folder / kLock, kLockTimeoutSeconds,
      fmt::format("another process is changing {}", (run_folder / kFile).string()));
  KeyRing ring = load_key_ring(run_folder);
  change(ring);
  write_file(run_folder / kFile, print_key_ring(ring, kIndent) + "\n");
}

uint64_t key_ring_stamp(const fs::path& run_folder) {
  struct stat status = {};
  if (::stat((run_folder / kFile).c_str(), &status) != 0) return 0;
  const uint64_t changed = derive_seed(static_cast<uint64_t>(status.st_mtim.tv_sec),
                                       static_cast<uint64_t>(status.st_mtim.tv_nsec));
  return derive_seed(changed, status.st_ino);
}

}  // namespace thinwire::hosts

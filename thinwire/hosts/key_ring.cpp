#include "thinwire/hosts/key_ring.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/names.h"
#include "thinwire/base/rng.h"
#include "thinwire/hosts/folder_lock.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

using Json = nlohmann::json;

constexpr const char* kFile = "keys.json";
constexpr const char* kLock = "keys.lock";
constexpr const char* kFormat = "thinwire-keys";
constexpr int kVersion = 1;
constexpr size_t kIdBegin = 1;  // every key's text begins with U
constexpr size_t kIdLength = 10;
constexpr double kLockTimeoutSeconds = 10;
constexpr int kIndent = 2;
constexpr double kDaySeconds = 24 * 3600;

PublicKey read_key(const Json& json) {
  const auto key =
      transport::decode_public_key(transport::NKeyKind::kUser, json.get<std::string>());
  if (!key) throw Error("an invalid key");
  return *key;
}

Role read_role(const Json& json) {
  const auto role = value_named<Role>(json.get<std::string>());
  if (!role) throw Error("an unknown role");
  return *role;
}

Json print(const IssuedToken& token) {
  return {{"key", transport::participant_name(token.key)},
          {"role", name_of(token.role)},
          {"issued", token.issued},
          {"expires", token.expires},
          {"single_use", token.single_use},
          {"revoked", token.revoked}};
}

Json print(const EnrolledKey& key) {
  return {{"key", transport::participant_name(key.key)},
          {"token", transport::participant_name(key.token)},
          {"role", name_of(key.role)},
          {"enrolled", key.enrolled},
          {"revoked", key.revoked}};
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

// Those of `entries` that take_in would add to `others` or revoke there.
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
                         read_role(one.at("role")), one.at("enrolled"), one.at("revoked")});
  }
  return ring;
}

IssuedToken make_token(const PublicKey& key, Role role, double days, int64_t now) {
  const int64_t expires = days > 0 ? now + static_cast<int64_t>(days * kDaySeconds) : 0;
  return {.key = key, .role = role, .issued = now, .expires = expires};
}

std::string key_id(const PublicKey& key) {
  return transport::participant_name(key).substr(kIdBegin, kIdLength);
}

std::string KeyRing::enrol(const PublicKey& token, const PublicKey& key, int64_t now) {
  const auto issued = std::ranges::find(tokens, token, &IssuedToken::key);
  if (issued == tokens.end()) return "the token does not belong to this run";
  if (issued->revoked) return "the token was revoked";
  if (issued->expires != 0 && issued->expires <= now) return "the token has expired";
  if (const auto known = std::ranges::find(keys, key, &EnrolledKey::key); known != keys.end()) {
    return known->revoked ? "the key was revoked" : "";
  }
  const bool used = std::ranges::find(keys, token, &EnrolledKey::token) != keys.end();
  if (issued->single_use && used) return "the token has been used";
  keys.push_back({key, token, issued->role, now, false});
  return "";
}

size_t KeyRing::revoke(std::string_view id) {
  size_t count = 0;
  for (IssuedToken& token : tokens) {
    if (!key_id(token.key).starts_with(id)) continue;
    token.revoked = true;
    ++count;
  }
  for (EnrolledKey& key : keys) {
    const auto token = std::ranges::find(tokens, key.token, &IssuedToken::key);
    const bool of_token = token != tokens.end() && key_id(token->key).starts_with(id);
    if (!of_token && !key_id(key.key).starts_with(id)) continue;
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
    users.push_back({transport::participant_name(token.key), token.key,
                     transport::NatsRole::kNewcomer, token.expires, token.revoked});
  }
  for (const EnrolledKey& key : keys) {
    users.push_back(
        {transport::participant_name(key.key), key.key, role_of(key.role), 0, key.revoked});
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

// Who may take part in a run: the tokens that were issued, and the keys that newcomers enrolled
// with them. Kept in run.dir/keys.json, which `thinwire serve` and `thinwire keys` both change, one
// at a time. Holds public keys only, no secrets: a token's secret is printed once, when it is
// issued. docs/formats.md, "Folder of a run that is served"; docs/security.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/report/table.h"
#include "thinwire/transport/nats/nats_config.h"

namespace thinwire::hosts {

// What an enrolled key may do.
enum class Role : uint8_t { kMember, kObserver, kAuditor };
inline constexpr std::string_view kRoleNames[] = {"member", "observer", "auditor"};
constexpr std::span<const std::string_view> names_of(Role) { return kRoleNames; }

// A secret with which a newcomer connects in order to enrol its key. Times are seconds since 1970.
struct IssuedToken {
  PublicKey key;
  Role role = Role::kMember;
  int64_t issued = 0;
  int64_t expires = 0;      // 0: never
  bool single_use = false;  // it enrols one key only
  bool revoked = false;
  bool operator==(const IssuedToken&) const = default;
};

// A token issued at `now`, valid for `days`; 0: without limit.
IssuedToken make_token(const PublicKey& key, Role role, double days, int64_t now);

struct EnrolledKey {
  PublicKey key;
  PublicKey token;  // with which it was enrolled
  Role role = Role::kMember;
  int64_t enrolled = 0;
  bool revoked = false;
  int member = -1;           // its number in the run; -1: it has not joined yet, or never will
  std::string machine = {};  // what its owner calls it; may be empty
  bool operator==(const EnrolledKey&) const = default;
};

struct KeyRing {
  std::vector<IssuedToken> tokens;  // in order of issue
  std::vector<EnrolledKey> keys;    // in order of enrolment
  bool operator==(const KeyRing&) const = default;

  // Enrols a key with a token. Returns the reason for a refusal, as a sentence, or an empty string;
  // a key that is enrolled already is left unchanged. A revoked key cannot enrol again, and nobody
  // who wants another role than the token's or the key's; `wanted`: nothing if that is not known.
  // `machine`: what its owner calls it.
  std::string enrol(const PublicKey& token, const PublicKey& key, int64_t now,
                    std::optional<Role> wanted = std::nullopt, const std::string& machine = "");
  // Revokes the tokens and keys that are called `id`, and the keys enrolled with these tokens.
  // Returns how many there were.
  size_t revoke(std::string_view id);
  // Adds what another ring of the same run has and this one lacks. What is revoked in either is
  // revoked.
  void merge(const KeyRing& other);
  // What merging this ring would add to `other`.
  KeyRing beyond(const KeyRing& other) const;
  // The server's users besides the coordinator. A used-up token stays a user, so that its owner can
  // repeat a request whose answer was lost.
  std::vector<transport::NatsUser> users() const;
};

// Whether a user who gives this text means the key: the first characters of its id
// (key_id) or of its whole name.
bool is_called(const PublicKey& key, std::string_view text);

// A ring as text, and back. Reading throws an exception if the text is not a ring.
std::string print_key_ring(const KeyRing& ring, int indent);
KeyRing read_key_ring(std::string_view text);

// What the owner of a key calls its machine; empty: nothing, or nobody knows. Any thread.
using MachineOf = std::function<std::string(const PublicKey& key)>;
// What users see of it: the key's id, and behind it the name, which proves nothing.
std::string label_of(const PublicKey& key, const std::string& machine);

// An empty ring if there is none yet. Throws Error for a damaged file.
KeyRing load_key_ring(const fs::path& run_folder);

// Loads the ring, applies `change`, and stores it, while a lock keeps other processes from changing
// it.
void update_key_ring(const fs::path& run_folder, const std::function<void(KeyRing&)>& change);

// Identifies the current version of the file: the value changes whenever the ring is stored.
uint64_t key_ring_stamp(const fs::path& run_folder);

// Changes who may take part in a run that is served from a folder, whether or not it is being
// served now: the library behind `thinwire keys`. A coordinator that serves the run notices within
// a second.

// All of them throw UsageError if `run_folder` is not one of `thinwire serve`.

KeyRing keys_of_run(const fs::path& run_folder);
// The same to be shown: id, what it is, role, since when, until when, state.
report::Table list_keys(const fs::path& run_folder);

// A new token, valid for `days` (0: without limit), as text.
std::string issue_token(const fs::path& run_folder, Role role, double days, bool single_use);

// Revokes the token or key whose id is or begins with `id`, and the keys enrolled with the token.
// Returns what was done, as a sentence, and on a cluster what its admin has to do. Throws
// UsageError if none or several match, or if `id` has fewer than four characters.
std::string revoke_keys(const fs::path& run_folder, const std::string& id);

}  // namespace thinwire::hosts

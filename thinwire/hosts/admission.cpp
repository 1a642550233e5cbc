#include "thinwire/hosts/admission.h"

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/hosts/secrets.h"
#include "thinwire/hosts/served_run.h"

namespace thinwire::hosts {
namespace {

int64_t unix_now() { return static_cast<int64_t>(unix_seconds()); }

}  // namespace

Admission::Admission(fs::path run_folder, double token_days) : run_folder_(std::move(run_folder)) {
  token_ = load_or_make_seed(run_folder_ / kServerFolder / kTokenFile);
  const PublicKey key = make_signer(token_)->key();
  update_key_ring(run_folder_, [&](KeyRing& ring) {
    const auto known = std::ranges::find(ring.tokens, key, &IssuedToken::key);
    if (known != ring.tokens.end()) {
      token_expires_ = known->expires;
      return;
    }
    ring.tokens.push_back(make_token(key, Role::kMember, token_days, unix_now()));
    token_expires_ = ring.tokens.back().expires;
  });
  load();
}

void Admission::load() {
  stamp_ = key_ring_stamp(run_folder_);
  ring_ = load_key_ring(run_folder_);
  std::set<PublicKey> revoked, members, auditors;
  for (const IssuedToken& token : ring_.tokens) {
    if (token.revoked) revoked.insert(token.key);
  }
  for (const EnrolledKey& key : ring_.keys) {
    if (key.revoked) revoked.insert(key.key);
    if (!key.revoked && key.role == Role::kMember) members.insert(key.key);
    if (!key.revoked && key.role == Role::kAuditor) auditors.insert(key.key);
  }
  const std::lock_guard lock(mutex_);
  revoked_ = std::move(revoked);
  members_ = std::move(members);
  auditors_ = std::move(auditors);
}

bool Admission::update() {
  if (key_ring_stamp(run_folder_) == stamp_) return false;
  load();
  return true;
}

Result<transport::NatsUser> Admission::enrol(const PublicKey& token, const PublicKey& key) {
  std::string why_not;
  update_key_ring(run_folder_,
                  [&](KeyRing& ring) { why_not = ring.enrol(token, key, unix_now()); });
  if (!why_not.empty()) return fail(FailureKind::kRefused, why_not);
  const KeyRing ring = load_key_ring(run_folder_);
  const auto users = ring.users();
  return *std::ranges::find_if(users, [&](const transport::NatsUser& user) {
    return user.key == key && user.role != transport::NatsRole::kNewcomer;
  });
}

bool Admission::is_enrolled(const PublicKey& key) const {
  return std::ranges::any_of(
      ring_.keys, [&](const EnrolledKey& one) { return one.key == key && !one.revoked; });
}

void Admission::revoke(const PublicKey& key) {
  update_key_ring(run_folder_, [&](KeyRing& ring) {
    const auto known = std::ranges::find(ring.keys, key, &EnrolledKey::key);
    if (known != ring.keys.end()) known->revoked = true;
  });
}

bool Admission::is_revoked(const PublicKey& key) const {
  const std::lock_guard lock(mutex_);
  return revoked_.contains(key);
}

bool Admission::is_member(const PublicKey& key) const {
  const std::lock_guard lock(mutex_);
  return members_.contains(key);
}

bool Admission::is_auditor(const PublicKey& key) const {
  const std::lock_guard lock(mutex_);
  return auditors_.contains(key);
}

bool Admission::is_known(const PublicKey& key) const {
  return std::ranges::any_of(users(), [&](const transport::NatsUser& user) {
    const bool expired = user.expires != 0 && user.expires <= unix_now();
    return user.key == key && !user.revoked && !expired;
  });
}

}  // namespace thinwire::hosts

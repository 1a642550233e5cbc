#include "thinwire/hosts/request_handler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/secrets.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/fetched_shards.h"
#include "thinwire/hosts/served_run.h"
#include "thinwire/hosts/shared_keys.h"
#include "thinwire/transport/nats/join_token.h"

namespace thinwire::hosts {
namespace {

int64_t unix_now() { return static_cast<int64_t>(unix_seconds()); }

}  // namespace

RunKeys::RunKeys(fs::path run_folder, double token_days) : run_folder_(std::move(run_folder)) {
  const fs::path file = run_folder_ / kServerFolder / kTokenFile;
  if (!fs::exists(file)) store_seed(file, transport::make_token_secret());
  token_ = load_seed(file);
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

void RunKeys::load() {
  stamp_ = key_ring_stamp(run_folder_);
  ring_ = load_key_ring(run_folder_);
  std::set<PublicKey> revoked, members, auditors;
  for (const IssuedToken& token : ring_.tokens) {
    if (token.revoked) revoked.insert(token.key);
  }
  std::map<PublicKey, std::string> machines;
  for (const EnrolledKey& key : ring_.keys) {
    machines[key.key] = key.machine;
    if (key.revoked) revoked.insert(key.key);
    if (!key.revoked && key.role == Role::kMember) members.insert(key.key);
    if (!key.revoked && key.role == Role::kAuditor) auditors.insert(key.key);
  }
  const Lock lock(mutex_);
  revoked_ = std::move(revoked);
  members_ = std::move(members);
  auditors_ = std::move(auditors);
  machines_ = std::move(machines);
}

bool RunKeys::update() {
  if (key_ring_stamp(run_folder_) == stamp_) return false;
  load();
  return true;
}

Result<transport::NatsUser> RunKeys::enrol(const PublicKey& token, const PublicKey& key,
                                           std::optional<Role> wanted, const std::string& machine) {
  std::string why_not;
  update_key_ring(run_folder_, [&](KeyRing& ring) {
    why_not = ring.enrol(token, key, unix_now(), wanted, machine);
  });
  if (!why_not.empty()) return fail(FailureKind::kRefused, why_not);
  const KeyRing ring = load_key_ring(run_folder_);
  const auto users = ring.users();
  return *std::ranges::find_if(users, [&](const transport::NatsUser& user) {
    return user.key == key && user.role != transport::NatsRole::kNewcomer;
  });
}

bool RunKeys::is_enrolled(const PublicKey& key) const {
  return std::ranges::any_of(
      ring_.keys, [&](const EnrolledKey& one) { return one.key == key && !one.revoked; });
}

void RunKeys::revoke(const PublicKey& key) {
  update_key_ring(run_folder_, [&](KeyRing& ring) {
    const auto known = std::ranges::find(ring.keys, key, &EnrolledKey::key);
    if (known != ring.keys.end()) known->revoked = true;
  });
}

void RunKeys::number(std::span<const membership::Member> members) {
  if (members.size() == numbered_) return;
  update_key_ring(run_folder_, [&](KeyRing& ring) {
    for (size_t id = 0; id < members.size(); ++id) {
      const auto known = std::ranges::find(ring.keys, members[id].key, &EnrolledKey::key);
      if (known != ring.keys.end()) known->member = static_cast<int>(id);
    }
  });
  numbered_ = members.size();
}

bool RunKeys::is_revoked(const PublicKey& key) const {
  const Lock lock(mutex_);
  return revoked_.contains(key);
}

std::string RunKeys::machine_of(const PublicKey& key) const {
  const Lock lock(mutex_);
  const auto known = machines_.find(key);
  return known == machines_.end() ? "" : known->second;
}

bool RunKeys::is_member(const PublicKey& key) const {
  const Lock lock(mutex_);
  return members_.contains(key);
}

bool RunKeys::is_auditor(const PublicKey& key) const {
  const Lock lock(mutex_);
  return auditors_.contains(key);
}

std::string RunKeys::why_no_member(const PublicKey& key) const {
  if (is_revoked(key)) return "its key was revoked";
  if (is_auditor(key)) return "its key is an auditor's, who takes part with --audit";
  if (!is_member(key)) return "its key is not enrolled as a member's";
  return "";
}

std::string RunKeys::why_no_data(const PublicKey& key) const {
  return is_auditor(key) ? "" : why_no_member(key);
}

bool RunKeys::is_known(const PublicKey& key) const {
  return std::ranges::any_of(users(), [&](const transport::NatsUser& user) {
    const bool expired = user.expires != 0 && user.expires <= unix_now();
    return user.key == key && !user.revoked && !expired;
  });
}

namespace {

constexpr uint32_t kMaxProbeBytes = 192 << 10;
constexpr double kPollSeconds = 0.02;  // while the store is to answer
// A client repeats a request until it is answered (requests.cpp).
constexpr double kStandbySeconds = 3;
constexpr double kForgetSeconds = 60;

Bytes bytes_of(std::string_view text) {
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

RequestHandler::RequestHandler(transport::Courier& courier, const Signer& coordinator,
                               const std::map<Sha256, FilePart>& files, Callbacks callbacks)
    : courier_(courier),
      files_(files),
      callbacks_(std::move(callbacks)),
      requests_(courier, coordinator) {}

void RequestHandler::serve_pending(double timeout_s) {
  const bool waits = !uploads_.empty() || !placements_.empty();
  for (const RequestServer::IncomingRequest& incoming :
       requests_.take(waits ? std::min(timeout_s, kPollSeconds) : timeout_s)) {
    if (is_due(incoming)) {
      answer(incoming);
    } else if (incoming.request.what == RequestKind::kResult) {
      take_result(incoming, false);
    }
  }
  finish_uploads();
  finish_placements();
}

bool RequestHandler::is_due(const RequestServer::IncomingRequest& incoming) {
  if (callbacks_.leads()) return true;
  const double now = monotonic_seconds();
  std::erase_if(left_to_leader_,
                [&](const auto& one) { return now - one.second > kForgetSeconds; });
  const auto [first, fresh] = left_to_leader_.emplace(incoming.request.nonce, now);
  return !fresh && now - first->second >= kStandbySeconds;
}

void RequestHandler::answer(const RequestServer::IncomingRequest& incoming) {
  if (const std::string why = callbacks_.refusal(incoming.request); !why.empty()) {
    return requests_.refuse(incoming, why);
  }
  switch (incoming.request.what) {
    case RequestKind::kEnrol:
      return enrol(incoming);
    case RequestKind::kStatus:
      return requests_.grant(incoming, bytes_of(callbacks_.status()));
    case RequestKind::kProbe:
      return answer_probe(incoming);
    case RequestKind::kData:
      return provide(incoming);
    case RequestKind::kResult:
      return take_result(incoming, true);
    case RequestKind::kRecipe:
      return requests_.grant(incoming, bytes_of(callbacks_.recipe()));
    case RequestKind::kPlace:
      return place(incoming);
    case RequestKind::kWeights:
      return answer_weights(incoming);
    case RequestKind::kParts:
      return answer_parts(incoming);
  }
}

// Where servers check names, a newcomer is connected under its token's.
void RequestHandler::enrol(const RequestServer::IncomingRequest& incoming) {
  const Request& request = incoming.request;
  const auto enrolment = decode_enrolment(request.body, request.run, request.requester);
  std::optional<PublicKey> token;
  std::optional<Role> wanted;
  std::string machine;
  if (enrolment) {
    token = enrolment->token;
    wanted = enrolment->role;
    machine = enrolment->machine;
  }
  if (callbacks_.names_are_checked) {
    token = decode_public_key(NKeyKind::kUser, incoming.name);
  }
  if (!token) return;
  const Result<std::string> jwt = callbacks_.enrol(*token, request.requester, wanted, machine);
  if (!jwt) return requests_.refuse(incoming, jwt.error().message);
  requests_.grant(incoming, bytes_of(*jwt));
}

void RequestHandler::answer_probe(const RequestServer::IncomingRequest& incoming) {
  ByteReader in(incoming.request.body);
  const auto wanted = in.get<uint32_t>();
  if (!in.ok() || wanted > kMaxProbeBytes) {
    return requests_.refuse(incoming,
                            fmt::format("a probe may ask for at most {} bytes", kMaxProbeBytes));
  }
  Bytes body;
  ByteWriter(body).put(unix_seconds());
  body.resize(std::max<size_t>(body.size(), wanted));
  requests_.grant(incoming, std::move(body));
}

// Data is uploaded to the store only when a member asks for it: all members may already have it.
void RequestHandler::provide(const RequestServer::IncomingRequest& incoming) {
  ByteReader in(incoming.request.body);
  Sha256 name;
  const auto raw = in.get_bytes(name.bytes.size());
  if (in.at_end()) std::ranges::copy(raw, name.bytes.begin());
  const auto file = files_.find(name);
  if (!in.at_end() || file == files_.end()) {
    return requests_.refuse(incoming, "this is not a file that the coordinator has");
  }
  if (provided_.contains(name)) return requests_.grant(incoming, {});
  const auto in_progress = std::ranges::find(uploads_, name, &Upload::name);
  if (in_progress != uploads_.end()) return in_progress->incoming.push_back(incoming);
  std::shared_ptr<const Bytes> bytes;
  try {
    bytes = std::make_shared<const Bytes>(read_part(file->second, name));
  } catch (const Error& problem) {
    callbacks_.message(fmt::format("a member cannot have a file of the run: {}", problem.what()));
    return requests_.refuse(
        incoming, fmt::format("the coordinator no longer has {} as it was when the run was founded",
                              file->second.file.filename().string()));
  }
  Upload& upload = uploads_.emplace_back(Upload{name, {}, {incoming}});
  if (callbacks_.provides) callbacks_.provides(name);
  courier_.put(std::move(bytes), transport::Priority::kBulk, upload.stored.setter());
}

void RequestHandler::answer_parts(const RequestServer::IncomingRequest& incoming) {
  const auto parts = decode_parts(incoming.request.body);
  if (!parts) return requests_.refuse(incoming, parts.error().message);
  const Result<Bytes> bytes = read_ranges(files_, parts->ranges);
  if (!bytes) return requests_.refuse(incoming, bytes.error().message);
  try {
    requests_.grant(incoming, seal(parts->key, *bytes));
  } catch (const Error& problem) {
    requests_.refuse(incoming, problem.what());
  }
}

void RequestHandler::finish_uploads() {
  for (auto upload = uploads_.begin(); upload != uploads_.end();) {
    if (!upload->stored.ready()) {
      ++upload;
      continue;
    }
    const Result<void> stored = upload->stored.wait(nullptr);
    if (stored) provided_.insert(upload->name);
    for (const RequestServer::IncomingRequest& incoming : upload->incoming) {
      if (stored) {
        requests_.grant(incoming, {});
      } else {
        requests_.refuse(incoming, "the store does not accept the data: " + stored.error().message);
      }
    }
    upload = uploads_.erase(upload);
  }
}

void RequestHandler::place(const RequestServer::IncomingRequest& incoming) {
  const Request& request = incoming.request;
  const bool repeated = std::ranges::any_of(placements_, [&](const Placement& one) {
    return one.incoming.request.nonce == request.nonce;
  });
  if (repeated) return;
  Placement& placement = placements_.emplace_back(Placement{{}, incoming});
  courier_.place(participant_name(request.requester), {request.body.begin(), request.body.end()},
                 placement.placed.setter());
}

void RequestHandler::finish_placements() {
  std::erase_if(placements_, [this](Placement& one) {
    if (!one.placed.ready()) return false;
    const Result<void> placed = one.placed.wait(nullptr);
    if (placed) {
      requests_.grant(one.incoming, {});
    } else if (placed.error().kind != FailureKind::kDeadline) {  // else it is requested again
      requests_.refuse(one.incoming,
                       fmt::format("{}; the run's sites are {}", placed.error().message,
                                   fmt::join(callbacks_.sites, ", ")));
    }
    return true;
  });
}

// Every coordinator takes results, because each writes a summary; the leading one answers.
void RequestHandler::take_result(const RequestServer::IncomingRequest& incoming, bool answers) {
  const Bytes& body = incoming.request.body;
  try {
    const WeightsAnswer weights = callbacks_.result(
        incoming.request.requester,
        events::parse_summary({reinterpret_cast<const char*>(body.data()), body.size()},
                              "the member's result"));
    if (answers) requests_.grant(incoming, {static_cast<uint8_t>(weights)});
  } catch (const Error& problem) {
    if (answers) requests_.refuse(incoming, problem.what());
  }
}

void RequestHandler::answer_weights(const RequestServer::IncomingRequest& incoming) {
  Result<WeightsAnswer> answer = WeightsAnswer::kNotWanted;
  if (callbacks_.weights) answer = callbacks_.weights(incoming.request);
  if (!answer) return requests_.refuse(incoming, answer.error().message);
  requests_.grant(incoming, {static_cast<uint8_t>(*answer)});
}

}  // namespace thinwire::hosts

#include "thinwire/hosts/request_handler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/hosts/enrolment.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
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

std::shared_ptr<const Bytes> read_bytes(const fs::path& file) {
  const MappedFile mapped(file);
  return std::make_shared<const Bytes>(mapped.bytes().begin(), mapped.bytes().end());
}

}  // namespace

RequestHandler::RequestHandler(transport::Courier& courier, const Signer& coordinator,
                               const std::map<Sha256, fs::path>& files, Callbacks callbacks)
    : courier_(courier),
      files_(files),
      callbacks_(std::move(callbacks)),
      requests_(courier, coordinator) {}

void RequestHandler::serve_pending(double timeout_s) {
  const bool waits = !uploads_.empty() || !placements_.empty();
  for (const RequestServer::IncomingRequest& incoming :
       requests_.take(waits ? std::min(timeout_s, kPollSeconds) : timeout_s)) {
    if (is_due(incoming)) answer(incoming);
  }
  finish_uploads();
  finish_placements();
}

// Every coordinator takes results, because each writes a summary.
bool RequestHandler::is_due(const RequestServer::IncomingRequest& incoming) {
  if (callbacks_.leads() || incoming.request.what == RequestKind::kResult) return true;
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
      return take_result(incoming);
    case RequestKind::kRecipe:
      return requests_.grant(incoming, bytes_of(callbacks_.recipe()));
    case RequestKind::kPlace:
      return place(incoming);
  }
}

// The token that a newcomer has. Where servers check names, it is connected under the token's.
std::optional<PublicKey> RequestHandler::token_of(
    const RequestServer::IncomingRequest& incoming) const {
  if (callbacks_.names_are_checked) {
    return transport::decode_public_key(transport::NKeyKind::kUser, incoming.name);
  }
  const Request& request = incoming.request;
  const auto token = decode_enrolment(request.body, request.run, request.requester);
  return token ? std::optional(*token) : std::nullopt;
}

void RequestHandler::enrol(const RequestServer::IncomingRequest& incoming) {
  const auto token = token_of(incoming);
  if (!token) return;
  const Result<std::string> jwt = callbacks_.enrol(*token, incoming.request.requester);
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
    return requests_.refuse(incoming, "this is not a file of the run's data");
  }
  if (provided_.contains(name)) return requests_.grant(incoming, {});
  const auto in_progress = std::ranges::find(uploads_, name, &Upload::name);
  if (in_progress != uploads_.end()) return in_progress->incoming.push_back(incoming);
  Upload& upload = uploads_.emplace_back(Upload{name, {}, {incoming}});
  const std::shared_ptr<const Bytes> bytes = read_bytes(file->second);
  if (callbacks_.provides) callbacks_.provides(bytes);
  courier_.put(bytes, transport::Priority::kBulk, upload.stored.setter());
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
  courier_.place(transport::participant_name(request.requester),
                 {request.body.begin(), request.body.end()}, placement.placed.setter());
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

void RequestHandler::take_result(const RequestServer::IncomingRequest& incoming) {
  const Bytes& body = incoming.request.body;
  try {
    callbacks_.result(
        incoming.request.requester,
        events::parse_summary({reinterpret_cast<const char*>(body.data()), body.size()},
                              "the member's result"));
  } catch (const Error& problem) {
    return requests_.refuse(incoming, problem.what());
  }
  requests_.grant(incoming, {});
}

}  // namespace thinwire::hosts

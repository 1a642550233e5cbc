#include "thinwire/hosts/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/endpoint.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/transport/mailbox/courier_mailbox.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/join_token.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr int kTries = 4;  // that a server refuses
constexpr std::chrono::milliseconds kRetryInterval(500);

Result<std::unique_ptr<transport::Courier>> try_once(const Access& access, const Identity& as) {
  transport::NatsOptions options{
      .target = {access.servers, access.authority, as.seed, kTimeoutSeconds, as.jwt},
      .run = access.run,
      .self = transport::participant_name(make_signer(as.seed)->key()),
      .max_blob_bytes = kMaxBlobBytes};
  if (!access.newcomer.jwt.empty()) {  // a cluster
    options.target.server_name = "";
    options.settle_s = kSettleSeconds;
    options.sites = access.sites;
    options.target.only_these = access.sites;
  }
  return transport::connect_nats_courier(options);
}

bool no_server_exists(const Access& access) {
  return std::ranges::all_of(access.servers, [](const std::string& server) {
    return names_nobody(parse_endpoint("address", server).host);
  });
}

// Waits for a server that is down, as a member does that has lost its server. While a server
// reloads its users, it refuses connections that are just being made.
Result<std::unique_ptr<transport::Courier>> reach(const Access& access, const Identity& as) {
  const Stopwatch watch;
  bool waits = false;
  for (int refusals = 0;;) {
    auto courier = try_once(access, as);
    if (courier) return courier;
    if (courier.error().kind == FailureKind::kRefused) {
      if (++refusals == kTries) return courier;
    } else if (watch.seconds() >= access.wait_s) {
      return courier;
    } else if (!waits) {
      if (no_server_exists(access)) return fail(FailureKind::kLostPeer, "no machine has this name");
      events::print_message(
          fmt::format("nobody answers at {}; waits for the run's server, up to {} ({})",
                      access.address(), format_seconds(access.wait_s), courier.error().message));
      waits = true;
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

[[noreturn]] void throw_unreachable(const Access& access, const Failure& failure) {
  throw Error(
      fmt::format("cannot reach the run at {}: {}; check the address, that `thinwire serve` runs "
                  "there, and that "
                  "the port is open from here",
                  access.address(), failure.message));
}

Access mailbox_access(const std::string& folder, const PublicKey& founder,
                      const transport::JoinToken& token, const fs::path& ca) {
  if (!ca.empty()) throw UsageError("--ca is for servers; the token is for a run with a mailbox");
  std::error_code unreadable;
  if (!fs::is_directory(folder, unreadable)) {
    throw UsageError(
        fmt::format("address: the token is for a run with a mailbox, so it must be the mailbox's "
                    "folder on this machine; '{}' is not a folder",
                    folder));
  }
  return {{folder}, "", token.run, founder, {token.secret, ""}, true};
}

// Whether a blob that could not be fetched may be there later.
bool may_arrive(FailureKind kind) {
  return kind == FailureKind::kLostPeer || kind == FailureKind::kDeadline ||
         kind == FailureKind::kCorruptPayload;
}

}  // namespace

Access parse_access(const std::string& address, const std::string& token, const fs::path& ca) {
  Result<transport::JoinToken> decoded = transport::decode_join_token(token);
  if (!decoded) throw UsageError("--token: " + decoded.error().message);
  const auto founder = transport::decode_public_key(transport::NKeyKind::kUser, decoded->run);
  if (!founder) {
    throw UsageError(fmt::format("--token: it is for '{}', which is not a run of `thinwire serve`",
                                 decoded->run));
  }
  if (decoded->address.empty()) return mailbox_access(address, *founder, *decoded, ca);
  (void)parse_endpoint("address", address);
  std::string authority = ca.empty() ? decoded->authority : read_authority(ca);
  std::vector<std::string> servers = std::move(decoded->more_addresses);
  servers.insert(servers.begin(), decoded->address);
  std::erase(servers, address);
  servers.insert(servers.begin(), address);
  // A run's own server has one address; the caller's replaces it. Where servers are sites, a member
  // that is connected to another site could store nothing, so all would wait for it in vain.
  if (decoded->jwt.empty() || decoded->sites) servers.resize(1);
  return {.servers = std::move(servers),
          .authority = std::move(authority),
          .run = decoded->run,
          .founder = *founder,
          .newcomer = {decoded->secret, std::move(decoded->jwt)},
          .sites = decoded->sites};
}

std::unique_ptr<transport::Courier> open_mailbox(const fs::path& folder, const PublicKey& founder,
                                                 const std::string& self, bool leaves_nothing) {
  const std::string run = transport::participant_name(founder);
  auto courier = transport::open_mailbox_courier({.folder = folder,
                                                  .run = run,
                                                  .self = self,
                                                  .coordinator = run,
                                                  .timeout_s = kTimeoutSeconds,
                                                  .max_blob_bytes = kMaxBlobBytes,
                                                  .leaves_nothing = leaves_nothing});
  if (courier) return std::move(*courier);
  throw UsageError(
      fmt::format("the mailbox {} cannot be used: {}", folder.string(), courier.error().message));
}

std::unique_ptr<transport::Courier> connect(const Access& access, const Identity& as) {
  if (access.mailbox) {
    // Several machines have the token, and each needs a folder of its own.
    const bool newcomer = as.seed == access.newcomer.seed;
    const PublicKey key = make_signer(newcomer ? make_seed() : as.seed)->key();
    return open_mailbox(access.address(), access.founder, transport::participant_name(key),
                        newcomer);
  }
  auto courier = reach(access, as);
  if (courier) return std::move(*courier);
  if (courier.error().kind != FailureKind::kRefused) throw_unreachable(access, courier.error());
  throw Error(
      fmt::format("{} does not accept the token (it may have expired, been used or been revoked), "
                  "or is not the "
                  "server that the token is for: {}",
                  access.address(), courier.error().message));
}

std::unique_ptr<transport::Courier> try_connect(const Access& access, const Identity& as) {
  auto courier = reach(access, as);
  if (courier) return std::move(*courier);
  if (courier.error().kind == FailureKind::kRefused) return nullptr;
  throw_unreachable(access, courier.error());
}

Bytes fetch_blob(transport::Courier& courier, const transport::BlobId& blob,
                 const PublicKey& holder, const Patience& patience, const std::atomic<bool>* stop) {
  const Stopwatch watch;
  while (true) {
    Waiting<Bytes> got;
    courier.get(blob, {transport::participant_name(holder)}, transport::Priority::kBulk,
                got.setter());
    Result<Bytes> bytes = got.wait(stop);
    if (bytes) return std::move(*bytes);
    if (may_arrive(bytes.error().kind) && watch.seconds() < patience.arrival_s) continue;
    throw Error(
        fmt::format("cannot fetch {} from the run: {}", to_hex(blob.name), bytes.error().message));
  }
}

RunDescription fetch_description(transport::Courier& courier, const PublicKey& founder,
                                 const Patience& patience) {
  Waiting<Bytes> first;
  const auto setter = first.setter();
  const auto reading = courier.read(kEntryStream, 1, [&](uint64_t sequence, Bytes record) {
    if (sequence == 1) setter(Result<Bytes>(std::move(record)));
  });
  const Result<Bytes> entry = first.wait_for(patience.answer_s);
  if (!entry) throw Error("the run has no description: " + entry.error().message);
  const auto id = decode_entry(*entry, founder);
  if (!id) throw Error(id.error().message);
  const Bytes bytes = fetch_blob(courier, *id, founder, patience, nullptr);
  Result<RunDescription> description = decode_description(bytes);
  if (!description) throw Error(description.error().message);
  return std::move(*description);
}

}  // namespace thinwire::hosts

#include "thinwire/hosts/access.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/join_token.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr int kTries = 4;
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
  }
  return transport::connect_nats_courier(options);
}

// While a server reloads its users, it refuses connections that are just being made.
Result<std::unique_ptr<transport::Courier>> reach(const Access& access, const Identity& as) {
  auto courier = try_once(access, as);
  for (int tries = 1; tries < kTries; ++tries) {
    if (courier || courier.error().kind != FailureKind::kRefused) break;
    std::this_thread::sleep_for(kRetryInterval);
    courier = try_once(access, as);
  }
  return courier;
}

[[noreturn]] void throw_unreachable(const Access& access, const Failure& failure) {
  throw Error(
      fmt::format("cannot reach the run at {}: {}; check the address, that `thinwire serve` runs "
                  "there, and that "
                  "the port is open from here",
                  access.address(), failure.message));
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
  std::string authority = ca.empty() ? decoded->authority : read_authority(ca);
  std::vector<std::string> servers = std::move(decoded->more_addresses);
  servers.insert(servers.begin(), decoded->address);
  if (!address.empty()) {
    std::erase(servers, address);
    servers.insert(servers.begin(), address);
    // A run's own server has one address; the caller's replaces it.
    if (decoded->jwt.empty()) servers.resize(1);
  }
  return {std::move(servers),
          std::move(authority),
          decoded->run,
          *founder,
          {decoded->secret, std::move(decoded->jwt)}};
}

std::unique_ptr<transport::Courier> connect(const Access& access, const Identity& as) {
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
                 const PublicKey& holder, const std::atomic<bool>* stop) {
  Waiting<Bytes> got;
  courier.get(blob, {transport::participant_name(holder)}, transport::Priority::kBulk,
              got.setter());
  Result<Bytes> bytes = got.wait(stop);
  if (bytes) return std::move(*bytes);
  throw Error(
      fmt::format("cannot fetch {} from the run: {}", to_hex(blob.name), bytes.error().message));
}

RunDescription fetch_description(transport::Courier& courier, const PublicKey& founder) {
  Waiting<Bytes> first;
  const auto setter = first.setter();
  const auto reading = courier.read(kEntryStream, 1, [&](uint64_t sequence, Bytes record) {
    if (sequence == 1) setter(Result<Bytes>(std::move(record)));
  });
  const Result<Bytes> entry = first.wait_for(kTimeoutSeconds);
  if (!entry) throw Error("the run has no description: " + entry.error().message);
  const auto id = decode_entry(*entry, founder);
  if (!id) throw Error(id.error().message);
  const Bytes bytes = fetch_blob(courier, *id, founder, nullptr);
  Result<RunDescription> description = decode_description(bytes);
  if (!description) throw Error(description.error().message);
  return std::move(*description);
}

}  // namespace thinwire::hosts

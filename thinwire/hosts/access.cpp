#include "thinwire/hosts/access.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/transport/nats/join_token.h"

namespace thinwire::hosts {
namespace {

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
  return {.servers = {folder},
          .authority = {},
          .authority_fingerprint = {},
          .run = token.run,
          .founder = founder,
          .newcomer = {token.secret, ""},
          .approach = &through_mailbox(),
          .wait_s = kMailboxAnswerSeconds};
}

std::string date_text(double seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

// How long to go on trying to fetch a blob after this failure.
double time_for(FailureKind kind, const WaitLimits& limits) {
  switch (kind) {
    case FailureKind::kDeadline:
      return std::max(limits.arrival_s, limits.wait_s);
    case FailureKind::kLostPeer:
    case FailureKind::kCorruptPayload:
      return limits.arrival_s;
    default:
      return 0;
  }
}

void say_that_it_waits(const std::string& what, const std::string& why, double seconds,
                       const WaitLimits& limits) {
  limits.message(fmt::format("{} cannot be fetched yet ({}); waits for it, up to {}", what, why,
                             format_seconds(seconds)));
}

}  // namespace

Access parse_access(const std::string& address, const std::string& token, const fs::path& ca) {
  Result<transport::JoinToken> decoded = transport::decode_join_token(token);
  if (!decoded) throw UsageError("--token: " + decoded.error().message);
  const auto founder = decode_public_key(NKeyKind::kUser, decoded->run);
  if (!founder) {
    throw UsageError(fmt::format("--token: it is for '{}', which is not a run of `thinwire serve`",
                                 decoded->run));
  }
  if (decoded->is_of_mailbox()) return mailbox_access(address, *founder, *decoded, ca);
  (void)parse_address("address", address);
  std::string authority = ca.empty() ? decoded->authority : read_authority(ca);
  std::vector<std::string> servers = std::move(decoded->servers);
  std::erase(servers, address);
  servers.insert(servers.begin(), address);
  // Where servers are sites, a member that is connected to another site could store nothing, so all
  // would wait for it in vain.
  if (decoded->sites) servers.resize(1);
  const Approach& approach =
      decoded->is_of_cluster() ? through_cluster(decoded->sites) : through_own_server();
  return {.servers = std::move(servers),
          .authority = std::move(authority),
          .authority_fingerprint = decoded->authority_fingerprint,
          .run = decoded->run,
          .founder = *founder,
          .newcomer = {decoded->secret, std::move(decoded->jwt)},
          .approach = &approach};
}

std::unique_ptr<transport::Courier> connect(Access& access, const Identity& as) {
  return access.approach->connect(access, as);
}

std::unique_ptr<transport::Courier> try_connect(Access& access, const Identity& as) {
  return access.approach->try_connect(access, as);
}

std::string clock_problem(const std::string& authority, const std::string& refusal, double now) {
  constexpr std::string_view kRemedy = "set the clock (timedatectl set-ntp true)";
  if (!authority.empty()) {
    const transport::Validity valid = transport::validity_of(authority);
    const auto from = static_cast<double>(valid.from);
    const auto until = static_cast<double>(valid.until);
    if (now < from) {
      return fmt::format(
          "this machine's clock is slow: it says {}, but the run's certificate is valid only from "
          "{} on; {}",
          date_text(now), date_text(from), kRemedy);
    }
    if (now > until) {
      return fmt::format(
          "the run's certificate was valid until {}, and this machine's clock says {}; if it is "
          "wrong, {}",
          date_text(until), date_text(now), kRemedy);
    }
  }
  // This is about a certificate that the server alone has.
  const bool early = refusal.find("certificate is not yet valid") != refusal.npos;
  if (!early && refusal.find("certificate has expired") == refusal.npos) return "";
  return fmt::format(
      "its certificate {}, by this machine's clock, which says {}; if the clock is "
      "wrong, {}",
      early ? "is not yet valid" : "has expired", date_text(now), kRemedy);
}

Bytes fetch_blob(transport::Courier& courier, const std::string& what,
                 const transport::BlobId& blob, const PublicKey& holder, const WaitLimits& limits,
                 const std::atomic<bool>* stop) {
  const Stopwatch watch;
  for (bool waits = false;; waits = true) {
    Waiting<Bytes> got;
    courier.get(blob, {participant_name(holder)}, transport::Priority::kBulk, got.setter());
    Result<Bytes> bytes = got.wait(stop);
    if (bytes) return std::move(*bytes);
    const double limit_s = time_for(bytes.error().kind, limits);
    if (watch.seconds() >= limit_s) {
      throw Error(fmt::format("{} cannot be fetched: {}", what, bytes.error().message));
    }
    if (!waits) say_that_it_waits(what, bytes.error().message, limit_s, limits);
  }
}

RunDescription fetch_description(transport::Courier& courier, const PublicKey& founder,
                                 const WaitLimits& limits, const std::atomic<bool>* stop) {
  const std::string what = "the run's description";
  Waiting<Bytes> first;
  const auto setter = first.setter();
  const auto reading = courier.read(kEntryStream, 1, [&](uint64_t sequence, Bytes record) {
    if (sequence == 1) setter(Result<Bytes>(std::move(record)));
  });
  Result<Bytes> entry = first.wait_for(limits.answer_s, stop);
  if (!entry && entry.error().kind == FailureKind::kDeadline && limits.wait_s > limits.answer_s) {
    say_that_it_waits(what, entry.error().message, limits.wait_s, limits);
    entry = first.wait_for(limits.wait_s - limits.answer_s, stop);
  }
  if (!entry) throw Error(fmt::format("{} cannot be fetched: {}", what, entry.error().message));
  const auto id = decode_entry(*entry, founder);
  if (!id) throw Error(id.error().message);
  const Bytes bytes = fetch_blob(courier, what, *id, founder, limits, stop);
  Result<RunDescription> description = decode_description(bytes);
  if (!description) throw Error(description.error().message);
  return std::move(*description);
}

}  // namespace thinwire::hosts

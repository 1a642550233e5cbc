#include "thinwire/hosts/access.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string_view>
#include <thread>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/cluster.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/transport/mailbox/courier_mailbox.h"
#include "thinwire/transport/nats/courier_nats.h"
#include "thinwire/transport/nats/join_token.h"

namespace thinwire::hosts {
namespace {

constexpr int kTries = 4;  // that a server refuses
constexpr std::chrono::milliseconds kRetryInterval(500);
constexpr const char* kWhatToCheck =
    "check the address, that `thinwire serve` runs there, and that the port is open from here";

// Nothing but a failure is returned if the server presents its authority's certificate.
std::optional<Failure> find_authority(Access& access) {
  if (!access.authority_fingerprint || !access.authority.empty()) return std::nullopt;
  const Endpoint server = parse_endpoint("address", access.address());
  Result<std::string> found = transport::presented_authority(
      server.host, server.port, *access.authority_fingerprint, kTimeoutSeconds);
  if (!found) return found.error();
  access.authority = std::move(*found);
  return std::nullopt;
}

Result<std::unique_ptr<transport::Courier>> try_once(Access& access, const Identity& as) {
  if (const std::optional<Failure> failure = find_authority(access)) {
    return tl::unexpected(*failure);
  }
  transport::NatsOptions options{.target = {.servers = access.servers,
                                            .ca_pem = access.authority,
                                            .identity = as.seed,
                                            .timeout_s = kTimeoutSeconds,
                                            .jwt = as.jwt},
                                 .run = access.run,
                                 .self = participant_name(make_signer(as.seed)->key()),
                                 .max_blob_bytes = kMaxBlobBytes,
                                 .limits = access.limits};
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
    return is_unknown_host(parse_endpoint("address", server).host);
  });
}

// Waits for a server that is down, as a member does that has lost its server. While a server
// reloads its users, it refuses connections that are just being made.
Result<std::unique_ptr<transport::Courier>> reach(Access& access, const Identity& as) {
  const Stopwatch watch;
  bool waits = false;
  for (int refusals = 0;;) {
    auto courier = try_once(access, as);
    if (courier) return courier;
    if (courier.error().kind == FailureKind::kRefused) {
      if (++refusals == kTries) return courier;
    } else if (!waits && no_server_exists(access)) {
      return fail(FailureKind::kLostPeer, "no machine has this name");
    } else if (watch.seconds() >= access.wait_s) {
      return courier;
    } else if (!waits) {
      const std::string& why = courier.error().message;
      access.message(fmt::format(
          "nobody answers at {}; waits for the run's server, up to {} ({}{})", access.address(),
          format_seconds(access.wait_s), why == "nobody answers" ? "" : why + "; ", kWhatToCheck));
      waits = true;
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

[[noreturn]] void throw_unreachable(const Access& access, const Failure& failure) {
  throw Unreachable(fmt::format("cannot reach the run at {}: {}; {}",
                                fmt::join(access.servers, ", "), failure.message, kWhatToCheck));
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
  return {.servers = {folder},
          .authority = {},
          .authority_fingerprint = {},
          .run = token.run,
          .founder = founder,
          .newcomer = {token.secret, ""},
          .mailbox = true,
          .wait_s = kMailboxAnswerSeconds};
}

// Whether the folder has something besides runs and hidden files.
bool holds_other_files(const fs::path& folder) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && !decode_public_key(NKeyKind::kUser, name).has_value()) {
      return true;
    }
  }
  return false;
}

std::string date_text(double seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

// Throws if it is not the identity that was refused: another server answered, or the clock is
// wrong.
void check_refusal(const Access& access, const Failure& failure) {
  if (access.authority_fingerprint && access.authority.empty()) {
    throw Error(fmt::format("the server at {} is not of the token's run ({}); check the address",
                            access.address(), failure.message));
  }
  const std::string problem = clock_problem(access.authority, failure.message, unix_seconds());
  if (!problem.empty()) {
    throw Error(fmt::format("cannot trust the server at {}: {}", access.address(), problem));
  }
}

// How long to go on trying to fetch a blob after this failure.
double patience_with(FailureKind kind, const Patience& patience) {
  switch (kind) {
    case FailureKind::kDeadline:
      return std::max(patience.arrival_s, patience.wait_s);
    case FailureKind::kLostPeer:
    case FailureKind::kCorruptPayload:
      return patience.arrival_s;
    default:
      return 0;
  }
}

void say_that_it_waits(const std::string& what, const std::string& why, double seconds,
                       const Patience& patience) {
  patience.message(fmt::format("{} cannot be fetched yet ({}); waits for it, up to {}", what, why,
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
  return {.servers = std::move(servers),
          .authority = std::move(authority),
          .authority_fingerprint = decoded->authority_fingerprint,
          .run = decoded->run,
          .founder = *founder,
          .newcomer = {decoded->secret, std::move(decoded->jwt)},
          .sites = decoded->sites};
}

void check_outside_mailbox(const fs::path& run_folder, const fs::path& mailbox) {
  const fs::path within = fs::weakly_canonical(run_folder);
  const fs::path whole = fs::weakly_canonical(mailbox);
  if (std::ranges::mismatch(whole, within).in1 != whole.end()) return;
  throw UsageError(
      fmt::format("[run] dir must lie outside the mailbox {}, which others read, because it holds "
                  "secret keys, got {}",
                  mailbox.string(), run_folder.string()));
}

void check_served_mailbox(const fs::path& run_folder, const fs::path& mailbox) {
  std::error_code unreadable;
  if (fs::is_directory(mailbox, unreadable)) return check_outside_mailbox(run_folder, mailbox);
  throw UsageError(fmt::format("--mailbox: {} is not a folder; create it, or mount what it is on",
                               mailbox.string()));
}

void await_mailbox(const Access& access) {
  const Stopwatch watch;
  // What the coordinator writes arrives whenever it is synchronised.
  const fs::path coordinator = fs::path(access.address()) / access.run / access.run;
  std::error_code unreadable;
  for (bool waits = false; !fs::is_directory(coordinator, unreadable); waits = true) {
    if (holds_other_files(access.address())) {
      throw UsageError(
          fmt::format("address: {} holds other files and not the token's run; give the "
                      "folder that is synchronised with the run's mailbox",
                      access.address()));
    }
    constexpr const char* kQuestion = "is this the folder that is synchronised with the mailbox?";
    if (watch.seconds() >= access.wait_s) {
      throw Unreachable(
          fmt::format("the token's run is not in {}; {}", access.address(), kQuestion));
    }
    if (!waits) {
      access.message(fmt::format("the token's run is not in {} yet; waits for it, up to {} ({})",
                                 access.address(), format_seconds(access.wait_s), kQuestion));
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

std::unique_ptr<transport::Courier> open_mailbox(
    const fs::path& folder, const PublicKey& founder, const std::string& self, bool leaves_nothing,
    std::function<void(const std::string& sentence)> notice) {
  const std::string run = participant_name(founder);
  auto courier = transport::open_mailbox_courier({.folder = folder,
                                                  .run = run,
                                                  .self = self,
                                                  .coordinator = run,
                                                  .timeout_s = kTimeoutSeconds,
                                                  .max_blob_bytes = kMaxBlobBytes,
                                                  .leaves_nothing = leaves_nothing,
                                                  .notice = std::move(notice)});
  if (courier) return std::move(*courier);
  throw UsageError(
      fmt::format("the mailbox {} cannot be used: {}", folder.string(), courier.error().message));
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

std::unique_ptr<transport::Courier> connect(Access& access, const Identity& as) {
  if (access.mailbox) {
    await_mailbox(access);
    // Several machines have the token, and each needs a folder of its own.
    const bool newcomer = as.seed == access.newcomer.seed;
    const PublicKey key = make_signer(newcomer ? make_seed() : as.seed)->key();
    return open_mailbox(access.address(), access.founder, participant_name(key), newcomer,
                        access.message);
  }
  auto courier = reach(access, as);
  if (courier) return std::move(*courier);
  if (courier.error().kind != FailureKind::kRefused) throw_unreachable(access, courier.error());
  check_refusal(access, courier.error());
  throw Error(
      fmt::format("{} does not accept the token, which may have expired, been used or been "
                  "revoked, or be another run's: {}; ask the run's owner for its address and a "
                  "new token",
                  access.address(), courier.error().message));
}

std::unique_ptr<transport::Courier> try_connect(Access& access, const Identity& as) {
  auto courier = reach(access, as);
  if (courier) return std::move(*courier);
  if (courier.error().kind == FailureKind::kRefused) {
    check_refusal(access, courier.error());
    return nullptr;
  }
  throw_unreachable(access, courier.error());
}

Bytes fetch_blob(transport::Courier& courier, const std::string& what,
                 const transport::BlobId& blob, const PublicKey& holder, const Patience& patience,
                 const std::atomic<bool>* stop) {
  const Stopwatch watch;
  for (bool waits = false;; waits = true) {
    Waiting<Bytes> got;
    courier.get(blob, {participant_name(holder)}, transport::Priority::kBulk, got.setter());
    Result<Bytes> bytes = got.wait(stop);
    if (bytes) return std::move(*bytes);
    const double limit_s = patience_with(bytes.error().kind, patience);
    if (watch.seconds() >= limit_s) {
      throw Error(fmt::format("{} cannot be fetched: {}", what, bytes.error().message));
    }
    if (!waits) say_that_it_waits(what, bytes.error().message, limit_s, patience);
  }
}

RunDescription fetch_description(transport::Courier& courier, const PublicKey& founder,
                                 const Patience& patience, const std::atomic<bool>* stop) {
  const std::string what = "the run's description";
  Waiting<Bytes> first;
  const auto setter = first.setter();
  const auto reading = courier.read(kEntryStream, 1, [&](uint64_t sequence, Bytes record) {
    if (sequence == 1) setter(Result<Bytes>(std::move(record)));
  });
  Result<Bytes> entry = first.wait_for(patience.answer_s, stop);
  if (!entry && entry.error().kind == FailureKind::kDeadline &&
      patience.wait_s > patience.answer_s) {
    say_that_it_waits(what, entry.error().message, patience.wait_s, patience);
    entry = first.wait_for(patience.wait_s - patience.answer_s, stop);
  }
  if (!entry) throw Error(fmt::format("{} cannot be fetched: {}", what, entry.error().message));
  const auto id = decode_entry(*entry, founder);
  if (!id) throw Error(id.error().message);
  const Bytes bytes = fetch_blob(courier, what, *id, founder, patience, stop);
  Result<RunDescription> description = decode_description(bytes);
  if (!description) throw Error(description.error().message);
  return std::move(*description);
}

}  // namespace thinwire::hosts

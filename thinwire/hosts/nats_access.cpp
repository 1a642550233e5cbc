// Reaching a run over nats-servers: its own, a cluster's, or a cluster's of which each is a site's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/self_check.h"
#include "thinwire/hosts/store_need.h"
#include "thinwire/transport/nats/courier_nats.h"

namespace thinwire::hosts {
namespace {

constexpr const char* kJwtFile = "pass";               // on a cluster
constexpr double kPlaceSeconds = 2 * kTimeoutSeconds;  // the coordinator asks servers
constexpr int kTries = 4;                              // that a server refuses
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

// What a cluster needs besides, of NatsOptions.
using Configure = std::function<void(transport::NatsOptions&)>;

Result<std::unique_ptr<transport::Courier>> try_once(Access& access, const Identity& as,
                                                     const Configure& configure) {
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
  configure(options);
  return transport::connect_nats_courier(options);
}

bool no_server_exists(const Access& access) {
  return std::ranges::all_of(access.servers, [](const std::string& server) {
    return is_unknown_host(parse_endpoint("address", server).host);
  });
}

// Waits for a server that is down, as a member does that has lost its server. While a server
// reloads its users, it refuses connections that are just being made.
Result<std::unique_ptr<transport::Courier>> reach(Access& access, const Identity& as,
                                                  const Configure& configure) {
  const Stopwatch watch;
  bool waits = false;
  for (int refusals = 0;;) {
    auto courier = try_once(access, as, configure);
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

class OwnServerApproach : public Approach {
 public:
  std::unique_ptr<transport::Courier> connect(Access& access, const Identity& as) const override {
    auto courier = reach(access, as, [this](auto& options) { configure(options); });
    if (courier) return std::move(*courier);
    if (courier.error().kind != FailureKind::kRefused) throw_unreachable(access, courier.error());
    check_refusal(access, courier.error());
    throw Error(
        fmt::format("{} does not accept the token, which may have expired, been used or been "
                    "revoked, or be another run's: {}; ask the run's owner for its address and a "
                    "new token",
                    access.address(), courier.error().message));
  }

  std::unique_ptr<transport::Courier> try_connect(Access& access,
                                                  const Identity& as) const override {
    auto courier = reach(access, as, [this](auto& options) { configure(options); });
    if (courier) return std::move(*courier);
    if (courier.error().kind == FailureKind::kRefused) {
      check_refusal(access, courier.error());
      return nullptr;
    }
    throw_unreachable(access, courier.error());
  }

  // With the key if the server knows it, else with the token, and then the key is enrolled.
  std::unique_ptr<transport::Courier> admit(Access& access,
                                            const Applicant& applicant) const override {
    const bool returns = fs::exists(applicant.folder / kMemberKeyFile);
    std::unique_ptr<transport::Courier> as_newcomer;
    if (!returns) as_newcomer = connect(access, access.newcomer);  // before anything is written
    Identity self = applicant.identify();
    const fs::path jwt_file = applicant.folder / kJwtFile;
    if (fs::exists(jwt_file)) self.jwt = read_text_file(jwt_file);
    if (returns) {
      if (auto courier = try_connect(access, self)) return courier;
      as_newcomer = connect(access, access.newcomer);
    }
    self.jwt = applicant.enrol(*as_newcomer);
    if (!self.jwt.empty()) write_file(jwt_file, self.jwt);
    return connect(access, self);
  }

 protected:
  virtual void configure(transport::NatsOptions& /*options*/) const {}
};

class ClusterApproach : public OwnServerApproach {
 public:
  // The store may be on another server than the coordinator is connected to.
  std::optional<LinkReport> measure(const Access& access, transport::Courier& courier,
                                    RequestClient& requests,
                                    const std::optional<transport::BlobId>& stored) const override {
    auto link = OwnServerApproach::measure(access, courier, requests, stored);
    if (!stored) return link;
    const auto down = measure_store(courier, *stored, participant_name(access.founder));
    link->down_bytes_s = down.value_or(link->down_bytes_s);
    return link;
  }

  std::string server_name(const std::string& host) const override { return host; }

  transport::JoinToken relay_token(const Access& access, const std::string& address,
                                   const std::string& authority) const override {
    return {.run = access.run,
            .secret = access.newcomer.seed,
            .servers = {address},
            .jwt = access.newcomer.jwt,
            .authority = authority};
  }

 protected:
  void configure(transport::NatsOptions& options) const override {
    options.target.server_name = "";
    options.settle_s = kSettleSeconds;
  }
};

class SitesApproach final : public ClusterApproach {
 public:
  void check_site(const std::string& /*site*/) const override {}

  void place(const Access& access, RequestClient& requests,
             const std::string& site) const override {
    const std::string place =
        site.empty() ? parse_endpoint("address", access.address()).host : site;
    const Result<Bytes> placed =
        requests.ask(RequestKind::kPlace, Bytes(place.begin(), place.end()), kPlaceSeconds);
    if (!placed) throw Error(fmt::format("this member has no site: {}", placed.error().message));
  }

  std::string keeper(const Access& access) const override { return access.run; }

  transport::JoinToken relay_token(const Access& access, const std::string& address,
                                   const std::string& authority) const override {
    transport::JoinToken token = ClusterApproach::relay_token(access, address, authority);
    token.sites = true;
    return token;
  }

 protected:
  void configure(transport::NatsOptions& options) const override {
    ClusterApproach::configure(options);
    options.sites = true;
    options.target.only_these = true;
  }
};

}  // namespace

WaitLimits Approach::patience(const Access& access) const {
  return {.wait_s = access.wait_s, .message = access.message};
}

void Approach::check_site(const std::string& site) const {
  if (site.empty()) return;
  throw UsageError("--site: the servers of this run are not sites (docs/operations.md)");
}

std::optional<LinkReport> Approach::measure(
    const Access& access, transport::Courier& /*courier*/, RequestClient& requests,
    const std::optional<transport::BlobId>& /*stored*/) const {
  const Result<LinkReport> measured = measure_link(requests, access.limits);
  if (measured) return *measured;
  throw Error("the link to the run cannot be measured: " + measured.error().message);
}

std::string Approach::server_name(const std::string& /*host*/) const {
  return transport::kServerName;
}

transport::JoinToken Approach::relay_token(const Access& access, const std::string& /*address*/,
                                           const std::string& authority) const {
  return {
      .run = access.run,
      .secret = access.newcomer.seed,
      .authority_fingerprint = transport::fingerprint_of(transport::certificate_bytes(authority))};
}

const Approach& through_own_server() {
  static const OwnServerApproach approach;
  return approach;
}

const Approach& through_cluster(bool sites) {
  static const ClusterApproach cluster;
  static const SitesApproach of_sites;
  return sites ? of_sites : cluster;
}

}  // namespace thinwire::hosts

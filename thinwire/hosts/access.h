// How to reach a run from outside: its address, the authority that signed its server's certificate,
// and a token; or the folder of its mailbox and a token. All functions throw on failure, with
// messages meant for users.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/config/sections.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/links/links.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/certificates.h"
#include "thinwire/transport/nats/join_token.h"

namespace thinwire::hosts {

// Addresses as HOST:PORT.
struct Endpoint {
  std::string host;  // an IPv6 address without its brackets
  int port = 0;
};

// Where to listen. Throws UsageError that names the option for anything but HOST:PORT with a port
// from 0, for a free one, to 65535.
Endpoint parse_endpoint(const std::string& option, const std::string& text);
// Where others connect: likewise with a port from 1 on and a host that a join token can hold.
Endpoint parse_address(const std::string& option, const std::string& text);

// HOST:PORT.
std::string address_text(const Endpoint& endpoint);

// Whether it is certain that no machine has this name: false while names cannot be looked up.
bool is_unknown_host(const std::string& host);

bool listens_everywhere(const Endpoint& listen);
// This machine's addresses that others may be able to reach, IPv4 first; none if there is no
// network.
std::vector<std::string> local_addresses();

// The address of a server that listens at `listen` with this actual port: for use on this machine
// (near), and for use on others (far). If it listens on all addresses, the latter is this machine's
// name, unless the name leads to no address but this machine's own loopback: then it is the first
// of local_addresses().
std::string near_address(const Endpoint& listen, int port);
std::string far_address(const Endpoint& listen, int port);

// Nobody answers there.
class Unreachable : public Error {
 public:
  using Error::Error;
};

// How long to wait for an answer from a server or a coordinator.
inline constexpr double kTimeoutSeconds = 30;
// Within this time all servers of a cluster have what one of them has stored.
inline constexpr double kSettleSeconds = 1;
// Largest size of a blob of a run; snapshots are the largest blobs.
inline constexpr uint64_t kMaxBlobBytes = uint64_t{1} << 38;

// How long to wait.
struct WaitLimits {
  double answer_s = kTimeoutSeconds;                  // for an answer
  double arrival_s = 0;                               // for a blob that is not there yet
  double wait_s = 0;                                  // for a server or a coordinator that is down
  events::MessageSink message = events::tell_nobody;  // told once it waits
};
// A mailbox may be synchronised every few minutes only, and large files take their time.
inline constexpr double kMailboxAnswerSeconds = 600;
inline constexpr double kMailboxArrivalSeconds = 3600;

// Who connects.
struct Identity {
  Seed seed{};
  std::string jwt;  // on a cluster (transport/nats/nats_jwt.h); empty: the server knows the key
};

// A key that is to take part: what its owner does while it is admitted.
struct Applicant {
  fs::path folder;  // what is kept of its admission, besides the key; whether there is a key
  // Loads the key, or makes it, and writes the first files of the member.
  std::function<Identity()> identify;
  // Has the coordinator enrol the key. Returns its JWT, or an empty string if the server itself
  // knows the key. Throws Error if it is not admitted.
  std::function<std::string(transport::Courier&)> enrol;
};
inline constexpr const char* kMemberKeyFile = "key";  // in Applicant::folder

struct Access;
struct LinkReport;    // self_check.h
class RequestClient;  // requests.h

// What carries a run, as members and relays reach it; its coordinator's side is RunServers. Any
// thread.
class Approach {
 public:
  virtual ~Approach() = default;

  // As connect and try_connect below.
  virtual std::unique_ptr<transport::Courier> connect(Access& access, const Identity& as) const = 0;
  virtual std::unique_ptr<transport::Courier> try_connect(Access& access,
                                                          const Identity& as) const = 0;
  // Connects with the applicant's key, once it is admitted. Writes nothing before the run is
  // reached.
  virtual std::unique_ptr<transport::Courier> admit(Access& access,
                                                    const Applicant& applicant) const = 0;
  virtual WaitLimits patience(const Access& access) const;

  // These throw UsageError for what cannot be with this: a member's folder where others read it;
  // data that come as they are needed; limits of the rates; a site of its own; a relay.
  virtual void check_folder(const Access& /*access*/, const fs::path& /*run_folder*/) const {}
  virtual void check_fetch(config::FetchData /*fetch*/) const {}
  virtual void check_limits(const links::Link& /*limits*/) const {}
  virtual void check_site(const std::string& site) const;
  virtual void check_relay() const {}

  // This machine's line to the run; nothing where it cannot be known. `stored`: a blob of the run's
  // store that may be read to measure it. Throws Error if the run does not answer.
  virtual std::optional<LinkReport> measure(const Access& access, transport::Courier& courier,
                                            RequestClient& requests,
                                            const std::optional<transport::BlobId>& stored) const;

  // Where each server is a site's, has that of `site`, or of the address if it is empty, keep what
  // a member stores; and whose chunks it keeps first (MemberOptions). Nothing elsewhere.
  virtual void place(const Access& /*access*/, RequestClient& /*requests*/,
                     const std::string& /*site*/) const {}
  virtual std::string keeper(const Access& /*access*/) const { return ""; }

  // The name in the certificate of the server at `host`.
  virtual std::string server_name(const std::string& host) const;
  // A token with which machines reach the run through a relay at `address` with this authority.
  virtual transport::JoinToken relay_token(const Access& access, const std::string& address,
                                           const std::string& authority) const;
};

// A server of the run's own; a cluster, or one each of whose servers is a site's; a mailbox.
const Approach& through_own_server();
const Approach& through_cluster(bool sites);
const Approach& through_mailbox();

struct Access {
  std::vector<std::string> servers;  // HOST:PORT; with a mailbox, the path of its folder
  std::string authority;             // certificate, PEM; empty: those that the system trusts
  // The fingerprint of the authority, whose certificate the server presents: connecting finds it.
  // None: `authority` is meant.
  std::optional<transport::Fingerprint> authority_fingerprint;
  std::string run;    // the run's courier name
  PublicKey founder;  // the key that this name is derived from
  Identity newcomer;  // the token's
  const Approach* approach = &through_own_server();
  // How long to wait for a server or a coordinator that is down, or for a mailbox's run to arrive;
  // 0: not at all.
  double wait_s = 0;
  // Within which rates the traffic with the run's servers stays; 0: no limit. Not with a mailbox.
  links::Link limits = {};
  events::MessageSink message = events::tell_nobody;  // told what the user should know

  WaitLimits patience() const { return approach->patience(*this); }
  const std::string& address() const { return servers.front(); }
};

// Throws UsageError for a malformed or truncated token, for an address that is not HOST:PORT, and
// for a file without a certificate. `address` is tried before the token's addresses on a cluster,
// and replaces the token's on a run's own server and where each server is a site's. Empty `ca`: the
// token's authority. If the token is one of a mailbox, `address` is the path of its folder on this
// machine, which must exist.
Access parse_access(const std::string& address, const std::string& token, const fs::path& ca);

// Whether a machine whose clock says `now` (seconds since 1970) could not believe the certificate
// of a run's authority because of its date, in a sentence; empty: the date is not the reason.
// `refusal`: what the connection failed with.
std::string clock_problem(const std::string& authority, const std::string& refusal, double now);

// Throws UsageError if a run's folder, whose keys are secret, lies in its mailbox.
void check_outside_mailbox(const fs::path& run_folder, const fs::path& mailbox);
// The same for the mailbox that a run is to be served through (--mailbox), which must be a folder.
void check_served_mailbox(const fs::path& run_folder, const fs::path& mailbox);

// Waits for access.wait_s until the run is in the mailbox's folder; says so once it waits.
// Throws UsageError if the folder holds other files and not the run, and Unreachable if the run
// does not arrive. Writes nothing.
void await_mailbox(const Access& access);

// Opens the mailbox of the run that `founder` coordinates, for a participant. `leaves_nothing`: its
// files are removed at the end. `notice`: as MailboxOptions.
std::unique_ptr<transport::Courier> open_mailbox(
    const fs::path& folder, const PublicKey& founder, const std::string& self, bool leaves_nothing,
    std::function<void(const std::string& sentence)> notice);

// Connects, and completes `access` with the certificate of the authority. With a mailbox, it waits
// as await_mailbox does, and a newcomer has a name of its own that nobody else has, for that time.
// Throws Error with the likely cause if the server refuses or this machine's clock is wrong, and
// Unreachable if no machine has the address's name or nobody answers for access.wait_s; says so
// once it waits. One attempt takes up to twice kTimeoutSeconds for each server.
std::unique_ptr<transport::Courier> connect(Access& access, const Identity& as);

// Like connect, but returns null if a server of the run refuses this identity and the clock is not
// to blame.
std::unique_ptr<transport::Courier> try_connect(Access& access, const Identity& as);

// Fetches a blob from its holder; `what` it is, for messages. Says so once it waits for a server
// that is down. Throws Error if that fails or `stop`, which may be null, is set.
Bytes fetch_blob(transport::Courier& courier, const std::string& what,
                 const transport::BlobId& blob, const PublicKey& holder, const WaitLimits& limits,
                 const std::atomic<bool>* stop);

// The run's description, which its founder signed. A newcomer's courier may not read it from a
// server. Waits and throws as fetch_blob does.
RunDescription fetch_description(transport::Courier& courier, const PublicKey& founder,
                                 const WaitLimits& limits, const std::atomic<bool>* stop);

}  // namespace thinwire::hosts

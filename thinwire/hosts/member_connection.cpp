#include "thinwire/hosts/member_connection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/entrance.h"
#include "thinwire/hosts/shared_keys.h"

namespace thinwire::hosts {
namespace {

constexpr const char* kKeyFile = "key";
constexpr const char* kJwtFile = "pass";               // on a cluster
constexpr const char* kEnrolledFile = "enrolled";      // with a mailbox: the run's name
constexpr double kPlaceSeconds = 2 * kTimeoutSeconds;  // the coordinator asks servers

// As much of it as others may see; nothing if it cannot be shown.
std::string host_name() {
  std::array<char, kMaxMachineName + 1> name{};
  (void)gethostname(name.data(), kMaxMachineName);  // cut, if it is longer
  return why_no_machine_name(name.data()).empty() ? name.data() : "";
}

}  // namespace

MemberConnection::MemberConnection(const JoinOptions& options, fs::path folder)
    : options_(options), access_(options.access), folder_(std::move(folder)) {
  options.access.mailbox ? enter_mailbox() : enter();
  if (!fs::exists(own() / kRunFile)) write_file(own() / kRunFile, options.access.run);
  requests_.emplace(*courier_, options.access.founder, *signer_);
  requests_->be_patient(patience());
  if (options.access.sites && !options.audits) place();
}

// Connects with its own key if the server knows it, else with the token, and enrols the key.
void MemberConnection::enter() {
  const bool returns = fs::exists(own() / kKeyFile);
  std::unique_ptr<transport::Courier> as_newcomer;
  if (!returns) as_newcomer = connect(access_, access_.newcomer);  // before anything is written
  claim_folder();
  Identity self{load_or_make_seed(own() / kKeyFile), {}};
  if (fs::exists(own() / kJwtFile)) self.jwt = read_text_file(own() / kJwtFile);
  signer_ = make_signer(self.seed);
  if (returns) courier_ = try_connect(access_, self);
  if (courier_) return;
  if (!as_newcomer) as_newcomer = connect(access_, access_.newcomer);
  self.jwt = enrol(*as_newcomer);
  if (!self.jwt.empty()) write_file(own() / kJwtFile, self.jwt);
  courier_ = connect(access_, self);
}

void MemberConnection::claim_folder() {
  claim_.emplace(folder_, checkpoint::FolderOwner::kJoin);
  make_private_folder(own());
}

// Whether the key was enrolled before is known to this folder alone, because nobody answers at once
// in a mailbox.
void MemberConnection::enter_mailbox() {
  await_mailbox(access_);  // before anything is written
  claim_folder();
  const Identity self{load_or_make_seed(own() / kKeyFile), {}};
  signer_ = make_signer(self.seed);
  courier_ = connect(access_, self);
  const fs::path enrolled = own() / kEnrolledFile;
  if (fs::exists(enrolled) && read_text_file(enrolled) == access_.run) return;
  options_.display.message("waits for the coordinator to admit this machine");
  (void)enrol(*courier_);
  write_file(enrolled, access_.run);
}

// Has the server of this site keep what this member stores.
void MemberConnection::place() {
  const Access& access = options_.access;
  const std::string site =
      options_.site.empty() ? parse_endpoint("address", access.address()).host : options_.site;
  const Result<Bytes> placed =
      requests_->ask(RequestKind::kPlace, Bytes(site.begin(), site.end()), kPlaceSeconds);
  if (!placed) throw Error(fmt::format("this member has no site: {}", placed.error().message));
}

RequestClient::Patience MemberConnection::patience(double least_s) const {
  const double wait_s = std::max(options_.access.patience().wait_s, least_s);
  return {.wait_s = wait_s,
          .begins =
              [this, wait_s] {
                options_.display.message(fmt::format(
                    "the run's coordinator has not answered yet; waits for it, up to {}",
                    format_seconds(wait_s)));
              },
          .stop = options_.stop};
}

std::string MemberConnection::enrol(transport::Courier& courier) {
  const Access& access = options_.access;
  RequestClient client(courier, access.founder, *signer_);
  client.be_patient(patience(access.patience().answer_s));
  const auto token = make_signer(access.newcomer.seed);
  const Result<Bytes> enrolled =
      client.ask(RequestKind::kEnrol,
                 encode_enrolment(access.founder, signer_->key(), *token,
                                  options_.audits ? Role::kAuditor : Role::kMember,
                                  options_.machine.empty() ? host_name() : options_.machine),
                 kPromptSeconds);
  if (enrolled) return {enrolled->begin(), enrolled->end()};
  // The server may end the connection before the coordinator's answer is here.
  const std::string why = courier.denied().empty()
                              ? enrolled.error().message
                              : "its token was revoked or has expired meanwhile";
  throw Error(fmt::format("the run at {} does not admit this machine: {}", access.address(), why));
}

}  // namespace thinwire::hosts

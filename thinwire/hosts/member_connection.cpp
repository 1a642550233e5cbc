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

// As much of it as others may see; nothing if it cannot be shown.
std::string host_name() {
  std::array<char, kMaxMachineName + 1> name{};
  (void)gethostname(name.data(), kMaxMachineName);  // cut, if it is longer
  return why_no_machine_name(name.data()).empty() ? name.data() : "";
}

}  // namespace

MemberConnection::MemberConnection(const JoinOptions& options, fs::path folder)
    : options_(options), access_(options.access), folder_(std::move(folder)) {
  courier_ = access_.approach->admit(
      access_, {.folder = own(),
                .identify = [this] { return claim_folder(); },
                .enrol = [this](transport::Courier& courier) { return enrol(courier); }});
  if (!fs::exists(own() / kRunFile)) write_file(own() / kRunFile, options.access.run);
  requests_.emplace(*courier_, options.access.founder, *signer_);
  requests_->be_patient(patience());
  if (!options.audits) access_.approach->place(access_, *requests_, options.site);
}

Identity MemberConnection::claim_folder() {
  claim_.emplace(folder_, checkpoint::FolderOwner::kJoin);
  make_private_folder(own());
  const Seed seed = load_or_make_seed(own() / kMemberKeyFile);
  signer_ = make_signer(seed);
  return {seed, ""};
}

RequestClient::CoordinatorWait MemberConnection::patience(double least_s) const {
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

// Answers participants' requests to a run's coordinator (requests.h).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/signature.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/summary.h"
#include "thinwire/hosts/final_weights.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/membership/state.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/nats_jwt.h"

namespace thinwire::hosts {

// Who may take part in a run that is being served, by the key ring in its folder, which may change
// meanwhile.

// Used by one thread, except for what says otherwise.
class RunKeys {
 public:
  // Adds the ready file's token to the ring unless it is there. The token admits any number of
  // members for `token_days`; 0: without limit.
  RunKeys(fs::path run_folder, double token_days);

  // The secret of that token, and when it expires: seconds since 1970; 0: never.
  const Seed& token() const { return token_; }
  int64_t token_expires() const { return token_expires_; }

  // Who may connect, besides coordinators.
  std::vector<transport::NatsUser> users() const { return ring_.users(); }
  // Enrols a key with a token, and returns its user, as KeyRing::enrol; kRefused with the reason.
  Result<transport::NatsUser> enrol(const PublicKey& token, const PublicKey& key,
                                    std::optional<Role> wanted, const std::string& machine);
  // Any thread. What the owner of a key calls its machine; empty: nothing, or nobody knows.
  std::string machine_of(const PublicKey& key) const;
  // Whether the key was enrolled and not revoked.
  bool is_enrolled(const PublicKey& key) const;
  // Revokes a key that was enrolled.
  void revoke(const PublicKey& key);
  // Writes down which keys are members' and their numbers; `members`: the run's, in order of their
  // numbers, never fewer than before.
  void number(std::span<const membership::Member> members);
  // Whether the ring has changed since the last call.
  bool update();
  // Any thread.
  bool is_revoked(const PublicKey& key) const;
  // Any thread. Whether the key is enrolled as a member's and not revoked.
  bool is_member(const PublicKey& key) const;
  // Any thread. Whether it is enrolled as an auditor's and not revoked.
  bool is_auditor(const PublicKey& key) const;
  // Any thread. Why the key is no member's, and why who has it may not have the run's data, which
  // are members' and auditors'; empty if it is, or may.
  std::string why_no_member(const PublicKey& key) const;
  std::string why_no_data(const PublicKey& key) const;
  // Whether the key is enrolled, or a token's that is valid now.
  bool is_known(const PublicKey& key) const;

 private:
  void load();

  const fs::path run_folder_;
  Seed token_{};
  int64_t token_expires_ = 0;
  uint64_t stamp_ = 0;
  size_t numbered_ = 0;  // members
  KeyRing ring_;
  mutable Mutex mutex_;
  std::set<PublicKey> revoked_ GUARDED_BY(mutex_);
  std::set<PublicKey> members_ GUARDED_BY(mutex_);
  std::set<PublicKey> auditors_ GUARDED_BY(mutex_);
  std::map<PublicKey, std::string> machines_ GUARDED_BY(mutex_);
};

// Used by one thread.
class RequestHandler {
 public:
  struct Callbacks {
    // Enrols a key for a newcomer that has a token. Returns, once the server knows the key, its JWT
    // on a cluster and otherwise an empty string; a failure says why not.
    // `wanted`: its role; nothing if it does not say. `machine`: what its owner calls it.
    std::function<Result<std::string>(const PublicKey& token, const PublicKey& key,
                                      std::optional<Role> wanted, const std::string& machine)>
        enrol;
    std::function<std::string()> status;  // one line of JSON
    std::function<std::string()> recipe;  // its text
    // The result of a member whose run is complete; returns whether its weights are wanted, if this
    // coordinator leads.
    std::function<WeightsAnswer(const PublicKey& member, const events::Summary& summary)> result;
    // Whether this coordinator leads, and so answers at once. A standby answers only requests that
    // stay unanswered.
    std::function<bool()> leads;
    // Why a request is refused; empty: it is answered.
    std::function<std::string(const Request& request)> refusal;
    // Whether servers keep everybody from sending under another's name. Otherwise it counts what a
    // newcomer's enrolment proves.
    bool names_are_checked = true;
    // Called before a file of the data is stored, with its blob's name. May be empty.
    std::function<void(const Sha256& file)> provides = {};
    // Sites of servers, to be named to whoever asks for another; empty: servers are not sites.
    std::vector<std::string> sites = {};
    // The answer to a member that has the final weights; empty: they are not wanted.
    std::function<Result<WeightsAnswer>(const Request& request)> weights = {};
    events::MessageSink message = events::tell_nobody;
  };

  // `files`: what may be requested, by blob name. All references must outlive it.
  RequestHandler(transport::Courier& courier, const Signer& coordinator,
                 const std::map<Sha256, FilePart>& files, Callbacks callbacks);

  // Answers the requests received so far; waits up to `timeout_s` for one.
  void serve_pending(double timeout_s);

 private:
  struct Upload {
    Sha256 name;
    Waiting<void> stored;
    std::vector<RequestServer::IncomingRequest> incoming;
  };
  struct Placement {
    Waiting<void> placed;
    RequestServer::IncomingRequest incoming;
  };

  bool is_due(const RequestServer::IncomingRequest& incoming);
  void answer(const RequestServer::IncomingRequest& incoming);
  void enrol(const RequestServer::IncomingRequest& incoming);
  void answer_probe(const RequestServer::IncomingRequest& incoming);
  void provide(const RequestServer::IncomingRequest& incoming);
  void take_result(const RequestServer::IncomingRequest& incoming, bool answers);
  void answer_weights(const RequestServer::IncomingRequest& incoming);
  void answer_parts(const RequestServer::IncomingRequest& incoming);
  void finish_uploads();
  void place(const RequestServer::IncomingRequest& incoming);
  void finish_placements();

  transport::Courier& courier_;
  const std::map<Sha256, FilePart>& files_;
  const Callbacks callbacks_;
  std::set<Sha256> provided_;
  std::list<Upload> uploads_;
  std::list<Placement> placements_;
  std::map<Nonce, double> left_to_leader_;  // requests, and when each first arrived
  RequestServer requests_;
};

}  // namespace thinwire::hosts

// Answers participants' requests to a run's coordinator (request_message.h).
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/sha256.h"
#include "thinwire/events/summary.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// Used by one thread.
class RequestHandler {
 public:
  struct Callbacks {
    // Enrols a key for a newcomer that has a token. Returns, once the server knows the key, its JWT
    // on a cluster and otherwise an empty string; a failure says why not.
    std::function<Result<std::string>(const PublicKey& token, const PublicKey& key)> enrol;
    std::function<std::string()> status;  // one line of JSON
    std::function<std::string()> recipe;  // its text
    // The result of a member whose run is complete.
    std::function<void(const PublicKey& member, const events::Summary& summary)> result;
    // Whether this coordinator leads, and so answers at once. A standby answers only requests that
    // stay unanswered.
    std::function<bool()> leads;
    // Why a request is refused; empty: it is answered.
    std::function<std::string(const Request& request)> refusal;
    // Whether servers keep everybody from sending under another's name. Otherwise a newcomer has to
    // prove that it has a token (enrolment.h).
    bool names_are_checked = true;
    // Called before a file of the data is stored. May be empty.
    std::function<void(const std::shared_ptr<const Bytes>& file)> provides = {};
    // Sites of servers, to be named to whoever asks for another; empty: servers are not sites.
    std::vector<std::string> sites = {};
  };

  // `files`: the files that may be requested, by blob name. All references must outlive it.
  RequestHandler(transport::Courier& courier, const Signer& coordinator,
                 const std::map<Sha256, fs::path>& files, Callbacks callbacks);

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
  std::optional<PublicKey> token_of(const RequestServer::IncomingRequest& incoming) const;
  void enrol(const RequestServer::IncomingRequest& incoming);
  void answer_probe(const RequestServer::IncomingRequest& incoming);
  void provide(const RequestServer::IncomingRequest& incoming);
  void take_result(const RequestServer::IncomingRequest& incoming);
  void finish_uploads();
  void place(const RequestServer::IncomingRequest& incoming);
  void finish_placements();

  transport::Courier& courier_;
  const std::map<Sha256, fs::path>& files_;
  const Callbacks callbacks_;
  std::set<Sha256> provided_;
  std::list<Upload> uploads_;
  std::list<Placement> placements_;
  std::map<Nonce, double> left_to_leader_;  // requests, and when each first arrived
  RequestServer requests_;
};

}  // namespace thinwire::hosts

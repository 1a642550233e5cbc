// Answers what participants ask of a run's coordinator (request_message.h).
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
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
  struct Duties {
    // Enrols a key for a newcomer that is connected with a token's key. Returns why not, or an
    // empty string once the server knows the key.
    std::function<std::string(const PublicKey& token, const PublicKey& key)> enrol;
    std::function<std::string()> status;  // one line of JSON
    std::function<std::string()> recipe;  // its text
    // The result of a member whose run is complete.
    std::function<void(const PublicKey& member, const events::Summary& summary)> result;
  };

  // `files`: what may be asked for, by blob name. All references must outlive it.
  RequestHandler(transport::Courier& courier, const Signer& coordinator,
                 const std::map<Sha256, fs::path>& files, Duties duties);

  // Answers what has been asked; waits up to `patience_s` for something.
  void attend(double patience_s);

 private:
  struct Upload {
    Sha256 name;
    Waiting<void> stored;
    std::vector<RequestServer::IncomingRequest> incoming;
  };

  void answer(const RequestServer::IncomingRequest& incoming);
  void enrol(const RequestServer::IncomingRequest& incoming);
  void answer_probe(const RequestServer::IncomingRequest& incoming);
  void provide(const RequestServer::IncomingRequest& incoming);
  void take_result(const RequestServer::IncomingRequest& incoming);
  void finish_uploads();

  transport::Courier& courier_;
  const std::map<Sha256, fs::path>& files_;
  const Duties duties_;
  std::set<Sha256> provided_;
  std::list<Upload> uploads_;
  RequestServer requests_;
};

}  // namespace thinwire::hosts

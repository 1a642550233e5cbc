// The two ends of requests to a run's coordinator (request_message.h) over a courier.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/request_message.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// The coordinator's end. Requests are queued as they arrive; one thread takes and answers them.
// Requests beyond kMaxWaiting are dropped, since clients repeat them.
class RequestServer {
 public:
  static constexpr size_t kMaxWaiting = 1024;

  struct IncomingRequest {
    std::string name;  // of the sender's connection: a token's, or its own
    Request request;
  };

  // Both must outlive it. `coordinator` is the run's founding key.
  RequestServer(transport::Courier& courier, const Signer& coordinator);

  // The requests that have arrived since the last call, in order; waits up to `timeout_s` for one
  // if there is none. One that was repeated in the meantime is listed once.
  std::vector<IncomingRequest> take(double timeout_s);
  // Throws Error if `body` is longer than a message may be.
  void grant(const IncomingRequest& incoming, Bytes body);
  void refuse(const IncomingRequest& incoming, const std::string& why);

 private:
  void receive(const std::string& from, const Bytes& statement);
  void answer(const IncomingRequest& incoming, const Answer& answer);

  transport::Courier& courier_;
  const Signer& coordinator_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<IncomingRequest> waiting_;
  std::unique_ptr<transport::Subscription> subscription_;  // destroyed first
};

// A participant's end. Used by one thread.
class RequestClient {
 public:
  // Both must outlive it.
  RequestClient(transport::Courier& courier, const PublicKey& run, const Signer& own);

  // Sends a request, and repeats it until it is answered. kRefused with the coordinator's reason;
  // kDeadline if there is no answer within `timeout_s`.
  Result<Bytes> ask(RequestKind what, Bytes body, double timeout_s);
  // Several requests of one kind at once; their answers in the same order, or the first failure.
  Result<std::vector<Bytes>> ask_all(RequestKind what, std::vector<Bytes> bodies, double timeout_s);

 private:
  void receive(const Bytes& statement);
  bool await(double seconds);
  void send_unanswered();

  struct Question {
    Bytes statement;
    std::optional<Answer> answer;
  };

  transport::Courier& courier_;
  const PublicKey run_;
  const Signer& own_;
  std::mutex mutex_;
  std::condition_variable answered_;
  std::map<Nonce, Question> questions_;
  std::unique_ptr<transport::Subscription> subscription_;  // destroyed first
};

}  // namespace thinwire::hosts

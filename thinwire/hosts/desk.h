// The two ends of requests to a run's coordinator (desk_message.h) over a courier.
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
#include "thinwire/hosts/desk_message.h"
#include "thinwire/transport/courier.h"

namespace thinwire::hosts {

// The coordinator's end. Requests are gathered as they come in and answered by whoever takes them,
// on one thread. Requests beyond kMostWaiting are dropped: their askers repeat them.
class Desk {
 public:
  static constexpr size_t kMostWaiting = 1024;

  struct Visitor {
    std::string name;  // under which it is connected: a token's, or its own
    Request request;
  };

  // Both must outlive it. `coordinator` is the run's founding key.
  Desk(transport::Courier& courier, const Signer& coordinator);

  // The requests that have come in since the last call, in order; waits up to `patience_s` for one
  // if there is none. One that is repeated before it was taken is listed once.
  std::vector<Visitor> take(double patience_s);
  // Throws Error if `body` is longer than a message may be.
  void grant(const Visitor& visitor, Bytes body);
  void refuse(const Visitor& visitor, const std::string& why);

 private:
  void hear(const std::string& from, const Bytes& statement);
  void answer(const Visitor& visitor, const Answer& answer);

  transport::Courier& courier_;
  const Signer& coordinator_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Visitor> waiting_;
  std::unique_ptr<transport::Subscription> subscription_;  // ends first
};

// A participant's end. Used by one thread.
class DeskClient {
 public:
  // Both must outlive it.
  DeskClient(transport::Courier& courier, const PublicKey& run, const Signer& own);

  // Asks, and asks again until an answer comes. kRefused with the coordinator's reason; kDeadline
  // if nobody answers within `timeout_s`.
  Result<Bytes> ask(Ask what, Bytes body, double timeout_s);
  // Several requests of one kind at once; their answers in the same order, or the first failure.
  Result<std::vector<Bytes>> ask_all(Ask what, std::vector<Bytes> bodies, double timeout_s);

 private:
  void hear(const Bytes& statement);
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
  std::unique_ptr<transport::Subscription> subscription_;  // ends first
};

}  // namespace thinwire::hosts

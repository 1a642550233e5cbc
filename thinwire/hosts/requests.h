// The two ends of requests to a run's coordinator, over a courier, and what they say.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// Requests to a run's coordinator and its answers: with these a newcomer enrols its key, requests
// the run's status and data, measures its link, and reports its result. Requests are signed with
// the requester's key and answers with the coordinator's, so the server that carries them can
// neither forge nor swap them. docs/formats.md, "Requests and answers".

// The version of the protocol between the participants of a run. Raised with every incompatible
// change.
inline constexpr uint16_t kProtocolVersion = 7;

// The topic of requests. An answer's topic is the name of the participant that asked.
inline constexpr const char* kRequestTopic = "requests";

enum class RequestKind : uint8_t {
  // Admit the requester's key; body empty, or an enrolment (entrance.h). Answer: its JWT on a
  // cluster, or empty.
  kEnrol = 1,
  kStatus = 2,  // body empty. Answer: JSON (run_status.h)
  kProbe = 3,  // body: u32 bytes wanted, then padding. Answer: f64 Unix time, padded to that length
  kData = 4,  // store a blob of the description; body: its SHA-256. Answer: empty, once it is there
  kResult = 5,  // body: the requester's summary.json. Answer: a WeightsAnswer (final_weights.h)
  kRecipe = 6,  // body empty. Answer: the recipe as in the run's description
  // Keep what the requester stores on the server of its site; body: the site. Answer: empty
  kPlace = 7,
  // The run's final weights; body: empty while the requester stores them, then the name and the
  // length of the list of their parts. Answer: a WeightsAnswer
  kWeights = 8,
  // Parts of files of the description; body: which (fetched_shards.h). Answer: their bytes, sealed
  kParts = 9,
};

// Made at random; pairs an answer with its request.
using Nonce = std::array<uint8_t, 16>;
Nonce make_nonce();

struct Request {
  RequestKind what = RequestKind::kStatus;
  Nonce nonce{};
  PublicKey run;        // the founding coordinator's
  PublicKey requester;  // who signed it
  Bytes body;
  bool operator==(const Request&) const = default;
};

struct Answer {
  Nonce nonce{};
  bool granted = true;
  Bytes body;  // if refused, text that says why
  bool operator==(const Answer&) const = default;
};

// The key of `requester` must be request.requester.
Bytes encode_request(const Request& request, const Signer& requester);
Bytes encode_answer(const Answer& answer, const Signer& coordinator);

// Total: any bytes give a correctly signed message, or kCorruptPayload with a reason.
Result<Request> decode_request(std::span<const uint8_t> bytes, const PublicKey& run);
Result<Answer> decode_answer(std::span<const uint8_t> bytes, const PublicKey& run);

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
  Mutex mutex_;
  Condition arrived_;
  std::deque<IncomingRequest> waiting_ GUARDED_BY(mutex_);
  std::unique_ptr<transport::Subscription> subscription_;  // destroyed first
};

// Within which a coordinator answers that is there; whoever asks it says then that it waits.
inline constexpr double kPromptSeconds = 2;

// A participant's end. Used by one thread.
class RequestClient {
 public:
  // Both must outlive it.
  RequestClient(transport::Courier& courier, const PublicKey& run, const Signer& own);

  // How long to wait for a coordinator that is down.
  struct CoordinatorWait {
    double wait_s = 0;                        // if that is longer than the request's time-out
    std::function<void()> begins = {};        // called when the time-out is over
    const std::atomic<bool>* stop = nullptr;  // set from outside: wait no longer
    double repeat_s = kPromptSeconds;         // before an unanswered request is sent again
  };
  // From now on; at first there is none.
  void be_patient(CoordinatorWait patience) { patience_ = std::move(patience); }

  // Sends a request, and repeats it until it is answered. kRefused with the coordinator's reason,
  // or if the network no longer lets this side in; kDeadline if there is no answer within
  // `timeout_s`; kAborted if it is stopped.
  Result<Bytes> ask(RequestKind what, Bytes body, double timeout_s);
  // Several requests of one kind at once; their answers in the same order, or the first failure.
  Result<std::vector<Bytes>> ask_all(RequestKind what, std::vector<Bytes> bodies, double timeout_s);

 private:
  void receive(const Bytes& statement);
  bool await(double seconds);
  bool stopped() const { return patience_.stop != nullptr && *patience_.stop; }
  void send_unanswered();

  struct Question {
    Bytes statement;
    std::optional<Answer> answer;
  };

  transport::Courier& courier_;
  const PublicKey run_;
  const Signer& own_;
  CoordinatorWait patience_;
  Mutex mutex_;
  Condition answered_;
  std::map<Nonce, Question> questions_ GUARDED_BY(mutex_);
  std::unique_ptr<transport::Subscription> subscription_;  // destroyed first
};

}  // namespace thinwire::hosts

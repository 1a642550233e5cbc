// A courier's requests to its servers that await answers. While no server has the store that a
// request is for, as when a cluster has just lost the store's leader, the request is repeated until
// its time-out. A request that may have gone to a server that hangs is repeated much earlier,
// because another server may answer it. A pure state machine: it has no threads and no clock; times
// are in seconds, from any clock that never goes back. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/transport/courier/courier.h"
#include "thinwire/transport/nats/nats_connection.h"
#include "thinwire/transport/nats/nats_subjects.h"

namespace thinwire::transport {

// How long to wait for an answer before the request is sent again. The time follows what answers
// take on this line, as in TCP (RFC 6298); since every answer says which sending it is for, as
// TCP's timestamps do (RFC 7323), those to requests that were sent again count, too. If answers are
// quick but for some sendings that have none, a server hangs: then it is sent again soon.
class ResendTimer {
 public:
  // An answer came so long after the sending that it is for; `unanswered`: an earlier sending of
  // the same request was late.
  void answered(double seconds, bool unanswered);
  // After so many sendings that are late.
  double seconds(int late) const;

 private:
  double slowest() const;

  std::deque<double> last_;  // seconds of the last answers
  int suspicion_ = 0;        // for so many more answers, that a server hangs
};

// What a request is for, and so when it is sent again.
enum class Repeat : uint8_t {
  kNever,     // a chunk that is stored: its transfer is sent again instead
  kChunk,     // a chunk that is fetched: if its answer is late; its transfer, if it is lost
  kRecord,    // a record that is read: likewise; its reader, if it is lost
  kAppend,    // a record that is appended: if it is lost. Its place lets it be stored once only
  kQuestion,  // anything else, which is small: if it is late or lost
};

class NatsRequests {
 public:
  // Publishes the request so that its answer goes to the subject `reply`.
  using Send = std::function<Result<void>(const std::string& reply)>;
  // Called exactly once, by one of the functions below but never by ask.
  using Answer = std::function<void(Result<NatsMessage>)>;

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Request {
    std::string subject;
    Send send;
    Answer answer;
    Repeat repeat = Repeat::kQuestion;
    // If the server lacks what is requested, the request is repeated for so long, because it may be
    // on its way from another server.
    double settle_s = 0;
    // While no server has the store, the request is repeated for so long.
    double unserved_s = kNever;
  };

  // Answers come to subjects below `inbox` (AnswerPlace). An unanswered request fails after
  // timeout_s.
  NatsRequests(std::string inbox, double timeout_s);

  const std::string& inbox() const { return inbox_; }

  // Without a connection nothing is sent.
  void ask(double now, Request request);
  // Whether there is a connection; at first there is one.
  void link(bool connected) { connected_ = connected; }
  // What was on its way to a server is lost: the connection is another one, or another server leads
  // a store. Sends again what nobody else does (Repeat).
  void send_lost(double now);
  // A message on a subject below the inbox.
  void take(double now, NatsMessage message);
  // The server's message about something that it does not allow.
  void refused(const std::string& text);
  // Fails all waiting requests and all later ones.
  void fail_all(const Failure& failure);
  // Repeats requests that no server could handle or whose answers are late, and fails those that
  // have waited too long.
  void expire(double now);
  // The time of the next expire() that has something to do; infinity if there is none.
  double next() const;

 private:
  struct Sending {
    double at;
    bool late = false;  // it had no answer when the request was sent again
  };
  struct Waiting {
    Request request;
    double asked;
    std::vector<Sending> sendings = {};
    double again = kNever;           // when to send it again, because no server could handle it
    double unserved_since = kNever;  // no server has had the store
    std::optional<Failure> failure = {};
  };

  void send(double now, uint64_t number, Waiting& waiting);
  void answer(uint64_t number, Result<NatsMessage> result);
  void take_unserved(double now, uint64_t number, Waiting& waiting);
  // When it is sent again.
  double due(const Waiting& waiting) const;
  static Failure late(const Waiting& waiting, double seconds);

  const std::string inbox_;
  const double timeout_s_;
  bool connected_ = true;
  uint64_t last_number_ = 0;
  std::map<uint64_t, Waiting> waiting_;
  std::map<Repeat, ResendTimer> timers_;
  std::optional<Failure> failed_;  // fail_all was called
};

// A coordinator's requests about the stores that keep chunks: one for everybody, or, where every
// site has a server of its own, one for each holder.

// Used by one thread. The functions are those of Courier, and say what their answers mean; names
// are valid.
class ChunkStores {
 public:
  // Sends a request, whose answer comes later, by the same thread.
  using Ask = std::function<void(const std::string& subject, const std::string& request,
                                 NatsRequests::Answer answer)>;

  // Both must outlive it.
  ChunkStores(const NatsSubjects& subjects, Ask ask) : subjects_(subjects), ask_(std::move(ask)) {}

  void drop(const Sha256& blob, const std::string& holder, Courier::Done done);
  void count(Courier::Counted counted);
  void list(const std::string& holder, Courier::Listed listed);
  void place(const std::string& holder, const std::string& site, Courier::Done done);

 private:
  void count_from(uint64_t first, uint64_t before, Courier::Counted counted);
  void check_place(const std::string& holder, const std::string& site, Courier::Done done);

  const NatsSubjects& subjects_;
  const Ask ask_;
};

}  // namespace thinwire::transport

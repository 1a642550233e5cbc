// A courier's requests to its servers that await answers. While no server has the store that a
// request is for, as when a cluster has just lost the store's leader, the request is repeated until
// its time-out. A pure state machine: it has no threads and no clock; times are in seconds, from
// any clock that never goes back. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::transport {

class NatsRequests {
 public:
  // Publishes the request so that its answer goes to the subject `reply`.
  using Send = std::function<Result<void>(const std::string& reply)>;
  // Called exactly once, by one of the functions below but never by ask.
  using Answer = std::function<void(Result<NatsMessage>)>;

  // Answers come to subjects below `inbox`. An unanswered request fails after timeout_s.
  NatsRequests(std::string inbox, double timeout_s);

  const std::string& inbox() const { return inbox_; }

  // Without a connection nothing is sent, and the request waits in vain. If the server lacks what
  // is requested, the request is repeated for `settle_s`, because it may be on its way from another
  // server.
  void ask(double now, const std::string& subject, bool connected, Send send, Answer answer,
           double settle_s = 0);
  // A message on a subject below the inbox.
  void take(double now, NatsMessage message);
  // The server's message about something that it does not allow.
  void refused(const std::string& text);
  // Fails all waiting requests and all later ones.
  void fail_all(const Failure& failure);
  // Repeats requests that no server could handle, and fails those that have waited too long.
  void expire(double now);
  // The time of the next expire() that has something to do; infinity if there is none.
  double next() const;

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Waiting {
    std::string subject;
    Send send;
    Answer answer;
    double deadline;
    double settled;         // when each server has what another one has stored
    double again = kNever;  // when to send it again
    bool unserved = false;  // no server has the store
    std::optional<Failure> failure = {};
  };

  void send(uint64_t number, Waiting& waiting);
  void answer(uint64_t number, Result<NatsMessage> result);
  Failure late(const Waiting& waiting) const;

  const std::string inbox_;
  const double timeout_s_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, Waiting> waiting_;
  std::optional<Failure> failed_;  // fail_all was called
};

}  // namespace thinwire::transport

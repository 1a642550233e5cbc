// Finds participants with too many connections to a run's own server. One needs one or two, and a
// few more while it reconnects; every statement is sent over each of them, so that many connections
// delay everybody. nats-server has no limit on the connections of one user. docs/security.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

inline constexpr size_t kMaxConnections = 16;  // of one participant
// For which somebody may have more. A server takes up to 30 s to find that a connection has failed
// (transport::NatsLimits), while its owner has made new ones.
inline constexpr double kToleratedSeconds = 40;

// Used by one thread.
class ConnectionLimit {
 public:
  // The courier, a coordinator's, must outlive it.
  explicit ConnectionLimit(transport::Courier& courier);

  // Who has had more than kMaxConnections for kToleratedSeconds, by what the server has said up to
  // `now`: seconds of a clock that never goes back. Call it every second or so. Forgets the
  // connections of those whom it returns, and everybody's while the server cannot be reached:
  // notices are lost, and it may have restarted.
  std::vector<PublicKey> exceeded(double now);

 private:
  // Filled by the courier's thread, perhaps after this object is destroyed.
  struct Notices {
    Mutex mutex;
    // Whether a connection began.
    std::vector<std::pair<bool, Bytes>> unread GUARDED_BY(mutex);
  };

  std::unique_ptr<transport::Subscription> listen(const char* topic, bool begins);
  void take(bool begins, const Bytes& notice);

  transport::Courier& courier_;
  std::map<PublicKey, std::set<uint64_t>> open_;  // numbers
  std::set<uint64_t> ended_;                      // before it was heard that they began
  std::map<PublicKey, double> crowding_;          // since when
  const std::shared_ptr<Notices> notices_ = std::make_shared<Notices>();
  std::unique_ptr<transport::Subscription> arrivals_;
  std::unique_ptr<transport::Subscription> departures_;
};

}  // namespace thinwire::hosts

// Who has too many connections to a run's own server. A participant needs one or two, and a few
// more while it reconnects; what everybody says is sent over each of them, so that many delay
// everybody. nats-server has no limit on the connections of one user. docs/security.md.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "thinwire/base/signature.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

inline constexpr size_t kMaxConnections = 16;  // of one participant
// Notices may be lost. So a connection of whose end nothing was heard counts no longer than this.
inline constexpr double kCountedSeconds = 600;

// Used by one thread.
class ConnectionLimit {
 public:
  // The courier, a coordinator's, must outlive it.
  explicit ConnectionLimit(transport::Courier& courier);

  // The owners of more than kMaxConnections, by what the server has said up to `now`: seconds of a
  // clock that never goes back. Forgets the connections of those whom it returns, and everybody's
  // while the server cannot be reached: it may have restarted.
  std::vector<PublicKey> exceeded(double now);

 private:
  // Filled by the courier's thread, perhaps after this object is destroyed.
  struct Notices {
    std::mutex mutex;
    std::vector<std::pair<bool, Bytes>> unread;  // whether a connection began
  };

  std::unique_ptr<transport::Subscription> listen(const char* topic, bool begins);
  void take(bool begins, const Bytes& notice, double now);

  transport::Courier& courier_;
  std::map<PublicKey, std::map<uint64_t, double>> open_;  // since when, by number
  const std::shared_ptr<Notices> notices_ = std::make_shared<Notices>();
  std::unique_ptr<transport::Subscription> arrivals_;
  std::unique_ptr<transport::Subscription> departures_;
};

}  // namespace thinwire::hosts

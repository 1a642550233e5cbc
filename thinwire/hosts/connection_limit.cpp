#include "thinwire/hosts/connection_limit.h"

#include <utility>

#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {
namespace {

// Connections whose notices arrive in the other order are kept, and those that began before.
constexpr size_t kMaxEnded = 4096;

}  // namespace

ConnectionLimit::ConnectionLimit(transport::Courier& courier)
    : courier_(courier),
      arrivals_(listen(transport::kArrivalTopic, true)),
      departures_(listen(transport::kDepartureTopic, false)) {}

std::unique_ptr<transport::Subscription> ConnectionLimit::listen(const char* topic, bool begins) {
  return courier_.subscribe(transport::kServerParticipant, topic,
                            [notices = notices_, begins](const std::string& from, Bytes notice) {
                              if (from != transport::kServerParticipant) return;
                              const Lock lock(notices->mutex);
                              notices->unread.emplace_back(begins, std::move(notice));
                            });
}

std::vector<PublicKey> ConnectionLimit::exceeded(double now) {
  std::vector<std::pair<bool, Bytes>> unread;
  {
    const Lock lock(notices_->mutex);
    unread = std::exchange(notices_->unread, {});
  }
  if (!courier_.connected()) {
    open_.clear();
    ended_.clear();
    crowding_.clear();
    return {};
  }
  for (const auto& [begins, notice] : unread) take(begins, notice);
  std::erase_if(open_, [](const auto& one) { return one.second.empty(); });
  std::vector<PublicKey> owners;
  for (const auto& [owner, connections] : open_) {
    if (connections.size() <= kMaxConnections) {
      crowding_.erase(owner);
    } else if (now - crowding_.try_emplace(owner, now).first->second >= kToleratedSeconds) {
      owners.push_back(owner);
    }
  }
  for (const PublicKey& owner : owners) {
    open_.erase(owner);
    crowding_.erase(owner);
  }
  return owners;
}

void ConnectionLimit::take(bool begins, const Bytes& notice) {
  const auto parsed = transport::parse_connection_notice(notice);
  if (!parsed) return;
  const auto& [owner, connection] = *parsed;
  if (begins) {
    if (ended_.erase(connection) == 0) open_[owner].insert(connection);
  } else if (open_[owner].erase(connection) == 0) {
    ended_.insert(connection);
    if (ended_.size() > kMaxEnded) ended_.erase(ended_.begin());
  }
}

}  // namespace thinwire::hosts

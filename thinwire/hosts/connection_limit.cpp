#include "thinwire/hosts/connection_limit.h"

#include <utility>

#include "thinwire/transport/nats/connection_notice.h"

namespace thinwire::hosts {

ConnectionLimit::ConnectionLimit(transport::Courier& courier)
    : courier_(courier),
      arrivals_(listen(transport::kArrivalTopic, true)),
      departures_(listen(transport::kDepartureTopic, false)) {}

std::unique_ptr<transport::Subscription> ConnectionLimit::listen(const char* topic, bool begins) {
  return courier_.subscribe(transport::kServerParticipant, topic,
                            [notices = notices_, begins](const std::string& from, Bytes notice) {
                              if (from != transport::kServerParticipant) return;
                              const std::lock_guard lock(notices->mutex);
                              notices->unread.emplace_back(begins, std::move(notice));
                            });
}

std::vector<PublicKey> ConnectionLimit::exceeded(double now) {
  std::vector<std::pair<bool, Bytes>> unread;
  {
    const std::lock_guard lock(notices_->mutex);
    unread = std::exchange(notices_->unread, {});
  }
  if (!courier_.connected()) {
    open_.clear();
    return {};
  }
  for (const auto& [begins, notice] : unread) take(begins, notice, now);
  std::vector<PublicKey> owners;
  for (auto& [owner, connections] : open_) {
    std::erase_if(connections, [&](const auto& one) { return now - one.second > kCountedSeconds; });
    if (connections.size() > kMaxConnections) owners.push_back(owner);
  }
  std::erase_if(open_, [](const auto& one) {
    return one.second.empty() || one.second.size() > kMaxConnections;
  });
  return owners;
}

void ConnectionLimit::take(bool begins, const Bytes& notice, double now) {
  const auto parsed = transport::parse_connection_notice(notice);
  if (!parsed) return;
  if (begins) {
    open_[parsed->owner].emplace(parsed->connection, now);
  } else if (const auto owner = open_.find(parsed->owner); owner != open_.end()) {
    owner->second.erase(parsed->connection);
  }
}

}  // namespace thinwire::hosts

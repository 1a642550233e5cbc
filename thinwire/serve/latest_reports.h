// The members' latest reports, which are not in the ledger: for display, and to tell when a
// finished run is over.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thinwire/membership/message_codec.h"
#include "thinwire/membership/options.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::serve {

// Not thread-safe. Times are seconds during which the coordinator's host was awake.
class LatestReports {
 public:
  // Silence counts from now on; further calls change nothing.
  void begin(double now);
  // Record `sequence`, which closes a round, was applied; again, if the ledger is read anew.
  void closed(uint64_t sequence);
  // From the owner of join.key, who need not be a member yet.
  void receive(const membership::JoinRequest& join);
  // `message` is from this member, whose key is `key`.
  void receive(int member, const PublicKey& key, const membership::Message& message, double now);
  // The server says that a connection of this member ended.
  void disconnected(int member);
  // The contribution has arrived and counts.
  void arrived(const membership::Offer& offer);
  // The owner of this key has reported the result of the finished run.
  void finished(const PublicKey& key);
  // The contribution does not count; `why` is shown to users.
  void refused(const membership::Offer& offer, const std::string& why);

  // How many of the member's last contributions were audited, and their mean effect.
  void audited(int member, size_t audits, double effect);

  // The rate of the link of a key's owner, as measured; 0: not known.
  double down_bytes_s(const PublicKey& key) const {
    const auto known = down_bytes_s_.find(key);
    return known == down_bytes_s_.end() ? 0 : known->second;
  }

  // By id.
  std::map<int, LatestReport> all(double now) const;
  // As the functions of CoordinatorHost with these names.
  std::vector<int> unfinished(const membership::State& state, double now,
                              const membership::Options& times) const;
  std::optional<uint64_t> final_digest(const membership::State& state) const;

 private:
  struct Received {
    LatestReport latest;       // without silent_s
    std::optional<double> at;  // of its last message
  };
  double heard_at(const Received& received) const {
    return received.at.value_or(began_.value_or(0));
  }

  std::map<int, Received> received_;  // by member
  std::optional<double> began_;
  std::vector<uint64_t> closings_;  // records that closed a round, ascending
  std::map<PublicKey, double> down_bytes_s_;
  std::set<PublicKey> finished_;
};

}  // namespace thinwire::serve

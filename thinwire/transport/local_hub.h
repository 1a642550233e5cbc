// Where the members of one process meet: payloads and sums in progress, of the run and of groups of
// its members. Thread-safe. Sums go on behind compute: a thread of the hub, started when the first
// one needs it, forms a sum piece by piece once everybody has contributed, and members that wait
// for it take pieces too. Pieces are whole blocks of the wire format, so who sums what leaves no
// trace.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/transport/coded_sum.h"
#include "thinwire/transport/hub.h"

namespace thinwire::transport {

class LocalHub final : public Hub {
 public:
  explicit LocalHub(int members);
  ~LocalHub() override;
  LocalHub(const LocalHub&) = delete;
  LocalHub& operator=(const LocalHub&) = delete;

  int group(const std::vector<int>& members) override;
  void offer(int group, int member, const Key& key, Bytes payload) override;
  Result<std::vector<Delivery>> collect(int group, int member, const Key& key,
                                        double timeout_s) override;
  void contribute(int group, int member, const Key& key, std::span<const float> values,
                  const WireCodec& codec) override;
  Result<void> sum(int group, int member, const Key& key, std::span<float> out,
                   double timeout_s) override;
  void withdraw(int group, int member, const Key& key) override;
  void leave(int member) override;
  void abort(const std::string& reason) override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // An operation of one group; groups use equal keys for different things.
  struct Operation {
    int group;
    Key key;
    auto operator<=>(const Operation&) const = default;
  };

  struct Exchange {
    std::map<int, Delivery> arrived;
    bool closed = false;  // fixed for good: everyone gets exactly this list
    std::set<int> collected;
  };

  struct Reduce {
    std::map<int, std::span<const float>> contributions;
    size_t members = 0;
    const WireCodec* codec = nullptr;
    std::vector<float> sum;
    size_t taken = 0;   // values of the sum that somebody has formed or is forming
    size_t formed = 0;  // values of the sum that are there
    int reading = 0;    // threads that form a piece now; the contributions must stay where they are
    std::optional<Failure> failure;
    std::set<int> collected;

    bool complete() const { return contributions.size() == members; }
    bool has_piece() const { return !failure && complete() && taken < sum.size(); }
    bool done() const { return failure || (complete() && formed == sum.size()); }
  };

  template <typename Condition>
  std::optional<Failure> wait(Lock& lock, double timeout_s, Condition ready);
  void close_if_complete(int group, Exchange& exchange);
  bool everyone_in(int group, const std::set<int>& members) const;
  void form_piece(Lock& lock, Reduce& reduce, CodedSum& coded);
  void drop_contribution(Lock& lock, int member, Reduce& reduce);
  void forget_if_collected(const Operation& operation, int member);
  void form_sums();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<int>> groups_;
  std::set<int> present_;
  std::map<Operation, Exchange> exchanges_;
  std::map<Operation, std::shared_ptr<Reduce>> reduces_;
  std::string abort_reason_;
  std::thread thread_;
  bool stop_ = false;
};

}  // namespace thinwire::transport

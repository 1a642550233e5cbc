// What Communicator need of the place where the members' operations meet, and Communicator made of
// it. Members are named by their ids in the run; a group of them is named by what group() returns
// for it, and group 0 is all of them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/transport/communicator.h"

namespace thinwire::transport {

// Thread-safe. The functions are those of Communicator.
class Hub {
 public:
  virtual ~Hub() = default;

  virtual int group(const std::vector<int>& members) = 0;
  virtual void offer(int group, int member, const Key& key, Bytes payload) = 0;
  // Deliveries name members by their ids in the run.
  virtual Result<std::vector<Delivery>> collect(int group, int member, const Key& key,
                                                double timeout_s) = 0;
  virtual void contribute(int group, int member, const Key& key, std::span<const float> values,
                          const WireCodec& codec) = 0;
  virtual Result<void> sum(int group, int member, const Key& key, std::span<float> out,
                           double timeout_s) = 0;
  virtual void withdraw(int group, int member, const Key& key) = 0;
  virtual void leave(int member) = 0;
  virtual void abort(const std::string& reason) = 0;
};

// Communicator of one of `members` members. They count bytes and name members of groups; the hub
// does the rest.
std::unique_ptr<Communicator> make_hub_communicator(std::shared_ptr<Hub> hub, int members,
                                                    int self);

}  // namespace thinwire::transport

// A member that does not offer what it computed: a courier that stores and offers other payloads in
// place of its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "tests/launch/passing_courier.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/messages.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::launch {

// What there is to forge from. `other` is what another member offered for the same operation.
struct Forged {
  membership::Offer offer;
  std::shared_ptr<const Bytes> own;
  int other_member = -1;
  std::shared_ptr<const Bytes> other;
};

class ForgingCourier final : public PassingCourier {
 public:
  using Forge = std::function<Bytes(const Forged& from)>;

  // `signer`: the member's, of a run with this id.
  ForgingCourier(std::unique_ptr<Courier> to, const Signer& signer, uint64_t run, Forge forge);

  transport::BlobId put(std::shared_ptr<const Bytes> blob, transport::Priority priority,
                        Done done) override;
  // An offer waits until another member's for the same operation is here; nothing is announced.
  void publish(const std::string& topic, Bytes statement) override;

 private:
  using Operation = std::tuple<uint64_t, uint32_t, uint32_t>;  // round, epoch, fragment
  struct Received {
    int member = -1;
    std::shared_ptr<const Bytes> payload;
  };
  // Outlives callbacks.
  struct Board {
    std::mutex mutex;
    std::map<Sha256, std::shared_ptr<const Bytes>> own;
    std::map<Operation, Received> others;
    std::map<Operation, std::shared_ptr<const Bytes>> forged;
  };

  void receive(const std::string& from, const Bytes& statement);
  // Nothing if it cannot be made yet.
  std::shared_ptr<const Bytes> forged(const membership::Offer& offer);

  const Signer& signer_;
  const uint64_t run_;
  const Forge forge_;
  const std::shared_ptr<Board> board_ = std::make_shared<Board>();
  std::unique_ptr<transport::Subscription> others_;
};

}  // namespace thinwire::launch

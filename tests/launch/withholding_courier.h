// A member whose offers reach the coordinator only when a test lets them: a courier that loses the
// others. The member repeats an offer until its round no longer needs it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "tests/launch/passing_courier.h"
#include "thinwire/base/bytes.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/membership/messages.h"

namespace thinwire::launch {

class WithholdingCourier final : public PassingCourier {
 public:
  using Passes = std::function<bool(const membership::Offer& offer)>;

  WithholdingCourier(std::unique_ptr<Courier> to, uint64_t run, Passes passes)
      : PassingCourier(std::move(to)), run_(run), passes_(std::move(passes)) {}

  void publish(const std::string& topic, Bytes statement) override {
    const auto decoded = membership::decode_statement(statement, run_, unchecked);
    const auto* offer = decoded ? std::get_if<membership::Offer>(&decoded->message) : nullptr;
    if (offer == nullptr || passes_(*offer)) PassingCourier::publish(topic, std::move(statement));
  }

 private:
  const uint64_t run_;
  const Passes passes_;
};

}  // namespace thinwire::launch

// An auditor whose findings a test reads: a courier that decodes what is published.
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

class ListeningCourier final : public PassingCourier {
 public:
  using Heard = std::function<void(const membership::Audit& audit)>;

  ListeningCourier(std::unique_ptr<Courier> to, uint64_t run, Heard heard)
      : PassingCourier(std::move(to)), run_(run), heard_(std::move(heard)) {}

  void publish(const std::string& topic, Bytes statement) override {
    const auto decoded = membership::decode_statement(statement, run_, unchecked);
    const auto* audit = decoded ? std::get_if<membership::Audit>(&decoded->message) : nullptr;
    if (audit != nullptr) heard_(*audit);
    PassingCourier::publish(topic, std::move(statement));
  }

 private:
  const uint64_t run_;
  const Heard heard_;
};

}  // namespace thinwire::launch

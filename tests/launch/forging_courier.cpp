#include "tests/launch/forging_courier.h"

#include <utility>
#include <variant>

#include "thinwire/membership/message_codec.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::launch {

ForgingCourier::ForgingCourier(std::unique_ptr<Courier> to, const Signer& signer, uint64_t run,
                               Forge forge)
    : PassingCourier(std::move(to)), signer_(signer), run_(run), forge_(std::move(forge)) {
  others_ = subscribe(
      "", membership::kMembersTopic,
      [this](const std::string& from, const Bytes& statement) { receive(from, statement); });
}

transport::BlobId ForgingCourier::put(std::shared_ptr<const Bytes> blob,
                                      transport::Priority priority, Done done) {
  if (priority == transport::Priority::kRound) {
    const std::lock_guard lock(board_->mutex);
    board_->own[transport::blob_id(*blob).name] = blob;
  }
  return PassingCourier::put(std::move(blob), priority, std::move(done));
}

void ForgingCourier::receive(const std::string& from, const Bytes& statement) {
  const auto received = membership::decode_statement(statement, run_, unchecked);
  if (!received || received->author == signer_.key()) return;
  const auto* offer = std::get_if<membership::Offer>(&received->message);
  if (offer == nullptr) return;
  const Operation operation{offer->round, offer->epoch, offer->fragment};
  {
    const std::lock_guard lock(board_->mutex);
    if (!board_->others.try_emplace(operation, Received{offer->member, nullptr}).second) return;
  }
  get({offer->payload, offer->bytes}, {from}, transport::Priority::kRound,
      [board = board_, operation](Result<Bytes> bytes) {
        const std::lock_guard lock(board->mutex);
        if (bytes) {
          board->others[operation].payload = std::make_shared<Bytes>(*std::move(bytes));
        } else {
          board->others.erase(operation);
        }
      });
}

std::shared_ptr<const Bytes> ForgingCourier::forged(const membership::Offer& offer) {
  const Operation operation{offer.round, offer.epoch, offer.fragment};
  const std::lock_guard lock(board_->mutex);
  if (const auto made = board_->forged.find(operation); made != board_->forged.end()) {
    return made->second;
  }
  const auto own = board_->own.find(offer.payload);
  const auto other = board_->others.find(operation);
  if (own == board_->own.end() || other == board_->others.end() || !other->second.payload) {
    return nullptr;
  }
  auto made = std::make_shared<const Bytes>(
      forge_({offer, own->second, other->second.member, other->second.payload}));
  PassingCourier::put(made, transport::Priority::kRound, [](const Result<void>&) {});
  board_->forged[operation] = made;
  return made;
}

void ForgingCourier::publish(const std::string& topic, Bytes statement) {
  auto decoded = membership::decode_statement(statement, run_, unchecked);
  if (decoded && std::holds_alternative<membership::Announcement>(decoded->message)) return;
  auto* offer = decoded ? std::get_if<membership::Offer>(&decoded->message) : nullptr;
  if (offer == nullptr) return PassingCourier::publish(topic, std::move(statement));
  const auto instead = forged(*offer);
  if (!instead) return;  // the member repeats it
  const transport::BlobId id = transport::blob_id(*instead);
  offer->payload = id.name;
  offer->bytes = id.bytes;
  PassingCourier::publish(topic, membership::encode_statement(*decoded, signer_));
}

}  // namespace thinwire::launch

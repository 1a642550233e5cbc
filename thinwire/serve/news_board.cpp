#include "thinwire/serve/news_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace thinwire::serve {
namespace {

// Anyone with a token can make keys; beyond this number they are not remembered.
constexpr size_t kMaxKeys = 4096;

// Rounds overlap, so contributions need not come in their order.
void advance(std::optional<uint64_t>& newest, uint64_t round) {
  newest = std::max(newest.value_or(round), round);
}

}  // namespace

void NewsBoard::hear(const membership::Hello& hello) {
  if (down_bytes_s_.size() == kMaxKeys && !down_bytes_s_.contains(hello.key)) return;
  down_bytes_s_[hello.key] = hello.down_bytes_s;
}

void NewsBoard::hear(int member, const PublicKey& key, const membership::Message& message,
                     double now) {
  MemberNews& news = all_[member];
  news.heard_at = now;
  news.left = std::holds_alternative<membership::Goodbye>(message);
  if (const auto link = down_bytes_s_.find(key); link != down_bytes_s_.end()) {
    news.down_bytes_s = link->second;
  }
  if (const auto* report = std::get_if<membership::Report>(&message)) {
    news.position = report->position ? report->position->sequence : 0;
    if (report->digest) news.digest = report->digest;
  } else if (const auto* offer = std::get_if<membership::Offer>(&message)) {
    if (offer->seconds > 0) news.step_seconds = offer->seconds;
    advance(news.offered, offer->round);
  }
}

void NewsBoard::arrived(const membership::Offer& offer) {
  advance(all_[offer.member].arrived, offer.round);
}

void NewsBoard::refused(const membership::Offer& offer, const std::string& why) {
  all_[offer.member].refused = fmt::format("round {}: {}", offer.round, why);
}

}  // namespace thinwire::serve

#include <algorithm>

#include "thinwire/method/method.h"

namespace thinwire::method {
namespace {

constexpr double kSumRoundTrips = 2;  // of a sum whose chunks members own (sum_traffic)

// For a contribution of n bytes, sum_traffic says n (1 + sum_share) (m - 1) / m in each direction.
template <typename Amount>
double contribution_of(const Amount& amount, double members) {
  return amount.sent_bytes * members / ((1 + amount.sum_share) * (members - 1));
}

// `received`: contributions, or as many bytes as they have.
template <typename Amount>
void exchange(Amount& amount, double members, double received) {
  const double contribution = contribution_of(amount, members);
  amount.sent_bytes = contribution;
  amount.received_bytes = contribution * received;
  amount.round_trips /= kSumRoundTrips;
}

// Members receive the sum of what is gathered, where the coordinator forms it.
void receive_sum(Traffic& traffic, config::Sums sums, int members) {
  const GatheredSum& gathered = traffic.gathered_sum;
  const auto contributions = static_cast<uint64_t>(members);
  const bool formed =
      gathered.sum > 0 && coordinator_sums(sums, contributions, gathered.payload, gathered.sum);
  if (!formed) return;
  const double saved = (members - 1) * gathered.payload - gathered.sum;
  traffic.received_bytes -= saved * gathered.rounds;
  for (Piece& piece : traffic.pieces) piece.received_bytes -= saved;
}

}  // namespace

bool coordinator_sums(config::Sums sums, uint64_t contributions, double bytes, double sum_bytes) {
  if (sums == config::Sums::kMembers || contributions < 3) return false;
  if (sums == config::Sums::kCoordinator) return true;
  const double saved = static_cast<double>(contributions - 1) * bytes - sum_bytes;
  return saved >= static_cast<double>(kMinSavedBytes);
}

Traffic hosted_traffic(Traffic traffic, config::Sums sums, int members) {
  const auto is_sum = [](const Piece& piece) { return piece.round_trips == kSumRoundTrips; };
  const bool sum = traffic.pieces.empty() ? traffic.round_trips == kSumRoundTrips
                                          : std::ranges::any_of(traffic.pieces, is_sum);
  receive_sum(traffic, sums, members);
  if (!sum || members < 2) return traffic;
  const auto received = [&](const auto& amount) {
    const double bytes = contribution_of(amount, members);
    const bool formed =
        coordinator_sums(sums, static_cast<uint64_t>(members), bytes, bytes * amount.sum_share);
    return formed ? amount.sum_share : members - 1.0;
  };
  if (traffic.pieces.empty()) {
    exchange(traffic, members, received(traffic));
    return traffic;
  }
  double sent = 0;
  double all_received = 0;
  for (Piece& piece : traffic.pieces) {
    exchange(piece, members, received(piece));
    sent += piece.sent_bytes;
    all_received += piece.received_bytes;
  }
  exchange(traffic, members, all_received / sent);
  return traffic;
}

}  // namespace thinwire::method

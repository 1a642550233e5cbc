#include "thinwire/method/hosted.h"

#include <algorithm>

namespace thinwire::method {
namespace {

constexpr double kSumRoundTrips = 2;  // of a sum whose chunks members own (sum_traffic)

// For a contribution of n bytes, sum_traffic says 2 n (m - 1) / m in each direction.
template <typename Amount>
void gather(Amount& amount, double members) {
  const double contribution = amount.sent_bytes * members / (2 * (members - 1));
  amount.sent_bytes = contribution;
  amount.received_bytes = contribution * (members - 1);
  amount.round_trips /= kSumRoundTrips;
}

}  // namespace

Traffic hosted_traffic(Traffic traffic, int members) {
  const auto is_sum = [](const Piece& piece) { return piece.round_trips == kSumRoundTrips; };
  const bool sums = traffic.pieces.empty() ? traffic.round_trips == kSumRoundTrips
                                           : std::ranges::any_of(traffic.pieces, is_sum);
  if (!sums || members < 2) return traffic;
  gather(traffic, members);
  for (Piece& piece : traffic.pieces) gather(piece, members);
  return traffic;
}

}  // namespace thinwire::method

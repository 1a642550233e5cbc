#include "thinwire/hosts/store_speed.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/hosts/waiting.h"

namespace thinwire::hosts {
namespace {

constexpr size_t kFirst = 2;  // chunks that are fetched at once; then twice as many
constexpr size_t kMost = 64;
constexpr double kMinTimedSeconds = 0.3;
constexpr double kGrows = 1.25;  // the rate, while the link is not full
constexpr double kPatienceSeconds = 30;

Result<Bytes> fetch(transport::Courier& courier, const transport::BlobId& blob,
                    const std::string& holder) {
  Waiting<Bytes> fetched;
  courier.get(blob, {holder}, transport::Priority::kRound, fetched.setter());
  return fetched.wait_for(kPatienceSeconds);
}

// Seconds that it takes to fetch all of these full chunks.
std::optional<double> time_of(transport::Courier& courier, std::span<const Sha256> names,
                              const std::string& holder) {
  const Stopwatch watch;
  std::vector<Waiting<Bytes>> all(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    courier.get({names[i], transport::kMaxMessageBytes}, {holder}, transport::Priority::kRound,
                all[i].setter());
  }
  for (Waiting<Bytes>& one : all) {
    if (!one.wait_for(kPatienceSeconds)) return std::nullopt;
  }
  return watch.seconds();
}

}  // namespace

std::optional<double> measure_store(transport::Courier& courier, const transport::BlobId& blob,
                                    const std::string& holder) {
  const size_t full = blob.bytes / transport::kMaxMessageBytes;
  const auto list = transport::list_of(blob);
  if (full < kFirst || !list) return std::nullopt;
  auto listed = fetch(courier, *list, holder);
  if (!listed) return std::nullopt;
  const std::vector<Sha256> names =
      transport::chunk_names(std::make_shared<const Bytes>(*std::move(listed)));
  size_t next = 0;
  double best = 0;
  for (size_t count = kFirst; count <= kMost && next + count <= full; count *= 2) {
    const auto took = time_of(courier, std::span(names).subspan(next, count), holder);
    if (!took) return std::nullopt;
    const double bytes_s =
        static_cast<double>(count * transport::kMaxMessageBytes) / std::max(*took, 1e-6);
    const bool full_link = *took >= kMinTimedSeconds && bytes_s < kGrows * best;
    best = std::max(best, bytes_s);
    if (full_link) break;
    next += count;
  }
  return best > 0 ? std::optional(best) : std::nullopt;
}

}  // namespace thinwire::hosts

#include "thinwire/hosts/store_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/waiting.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"

namespace thinwire::hosts {
namespace {

// The size of a checkpoint's shared files besides what they say of each tensor.
constexpr double kHeaderBytes = 1 << 16;
constexpr double kHeaderBytesOfTensor = 1 << 10;

double bytes_below(const fs::path& folder) {
  double bytes = 0;
  std::error_code unreadable;
  const auto all = fs::recursive_directory_iterator(
      folder, fs::directory_options::skip_permission_denied, unreadable);
  for (auto entry = fs::begin(all); entry != fs::end(all); entry.increment(unreadable)) {
    std::error_code gone;  // the store may be in use
    const auto size = entry->file_size(gone);
    if (!gone) bytes += static_cast<double>(size);
  }
  return bytes;
}

}  // namespace

double snapshot_bytes(const config::Recipe& recipe) {
  const auto tensors = method::tensors_of(recipe);
  double bytes = weights_file_bytes(recipe) +
                 method::find_method(recipe.sync.method).state(recipe, tensors).consensus;
  if (method::facts_of(recipe.adapter).merges) {
    const auto frozen = method::adapted_tensors(method::ModelSpec(recipe), recipe.adapter).frozen;
    bytes += method::weight_bytes(frozen, WeightFormat::kF32);
  }
  return bytes;
}

double weights_file_bytes(const config::Recipe& recipe) {
  const auto tensors = method::tensors_of(recipe);
  return method::weight_bytes(tensors, method::trained_format(recipe)) + kHeaderBytes +
         kHeaderBytesOfTensor * static_cast<double>(tensors.size());
}

StoreNeed store_need(const config::Recipe& recipe, double files) {
  const auto tensors = method::tensors_of(recipe);
  const membership::RecipePlan plan(recipe, tensors);
  const membership::Options options = membership::options_of(recipe.sync);
  double all = 0;
  for (uint64_t round = 0; round < plan.rounds(); ++round) {
    for (const auto& operation : plan.round(round).operations) {
      all += static_cast<double>(operation.max_bytes);
    }
  }
  const uint64_t kept = std::min(plan.rounds(), 2 * options.snapshot_every + plan.overlap());
  StoreNeed need;
  need.files = files;
  need.payloads = all * static_cast<double>(plan.workers() * kept) /
                  static_cast<double>(std::max<uint64_t>(plan.rounds(), 1));
  need.snapshots = method::weight_bytes(tensors, method::trained_format(recipe));
  if (plan.rounds() > options.snapshot_every) need.snapshots += 2 * snapshot_bytes(recipe);
  return need;
}

std::string describe(const StoreNeed& need) {
  return fmt::format("the run's store takes up to {}: {} of payloads and {} of snapshots{}",
                     format_bytes(need.total()), format_bytes(need.payloads),
                     format_bytes(need.snapshots),
                     need.files == 0 ? ""
                                     : fmt::format(", and {} of data and base for members without "
                                                   "them",
                                                   format_bytes(need.files)));
}

std::string check_room_for_store(const config::Recipe& recipe, const fs::path& folder,
                                 double files) {
  const StoreNeed need = store_need(recipe, files);
  std::string takes = describe(need);
  const std::optional<uint64_t> available = free_disk_bytes(folder);
  if (!available) return takes;
  const auto free = static_cast<double>(*available);
  if (need.total() > free + bytes_below(folder)) {
    throw UsageError(fmt::format(
        "{}, but the disk of {} has only {} free; make room, choose a folder on another disk, or a "
        "method that sends less (thinwire plan --hosts)",
        takes, folder.string(), format_bytes(free)));
  }
  return fmt::format("{}; {} are free", takes, format_bytes(free));
}

namespace {

constexpr size_t kFirst = 2;  // chunks that are fetched at once; then twice as many
constexpr size_t kMost = 64;
constexpr double kMinTimedSeconds = 0.3;
constexpr double kGrows = 1.25;  // the rate, while the link is not full
constexpr double kPatienceSeconds = 30;

// Seconds that it takes to fetch all of these full chunks of a blob.
std::optional<double> time_of(transport::Courier& courier, const Sha256& blob,
                              std::span<const Sha256> names, const std::string& holder) {
  const Stopwatch watch;
  std::vector<Waiting<Bytes>> all(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    courier.get_part(blob, {names[i], transport::kMaxMessageBytes}, {holder},
                     transport::Priority::kRound, all[i].setter());
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
  Waiting<Bytes> fetched;
  courier.get(*list, {holder}, transport::Priority::kRound, fetched.setter());
  const Result<Bytes> listed = fetched.wait_for(kPatienceSeconds);
  if (!listed) return std::nullopt;
  const std::vector<Sha256> names = transport::listed_names(*listed);
  size_t next = 0;
  double best = 0;
  for (size_t count = kFirst; count <= kMost && next + count <= full; count *= 2) {
    const auto took = time_of(courier, blob.name, std::span(names).subspan(next, count), holder);
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

#include "thinwire/train/reference.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/events/progress.h"

namespace thinwire::train {
namespace {

constexpr std::string_view kMagic = "TWPAIRS1";
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Nullopt for anything but a whole file of this format.
std::optional<std::pair<uint64_t, KnownPairs>> decode(std::span<const uint8_t> bytes) {
  constexpr size_t kHash = sizeof(uint64_t);
  if (bytes.size() < kMagic.size() + 4 * kHash) return std::nullopt;
  ByteReader end(bytes.last(kHash));
  if (end.get<uint64_t>() != hash_bytes(bytes.first(bytes.size() - kHash))) return std::nullopt;
  if (!std::ranges::equal(bytes.first(kMagic.size()), as_bytes(kMagic))) return std::nullopt;
  ByteReader in(bytes.subspan(kMagic.size(), bytes.size() - kMagic.size() - kHash));
  const auto key = in.get<uint64_t>();
  KnownPairs known;
  known.model = in.get<uint64_t>();
  const auto count = in.get<uint64_t>();
  if (count != in.remaining() / sizeof(PairLikelihoods)) return std::nullopt;
  known.pairs.resize(count);
  for (PairLikelihoods& pair : known.pairs) {
    pair.chosen = in.get<double>();
    pair.rejected = in.get<double>();
  }
  return std::pair(key, std::move(known));
}

}  // namespace

std::optional<KnownPairs> read_known_pairs(const fs::path& file, uint64_t key,
                                           const events::MessageSink& message) {
  if (!fs::exists(file)) return std::nullopt;
  auto known = decode(MappedFile(file).bytes());
  if (!known) {
    message(fmt::format("{} is damaged; what it held is computed again", file.string()));
    fs::remove(file);
    return std::nullopt;
  }
  if (known->first != key) return std::nullopt;
  return std::move(known->second);
}

void write_known_pairs(const fs::path& file, uint64_t key, const KnownPairs& known) {
  Bytes bytes;
  bytes.reserve(kMagic.size() + 4 * sizeof(uint64_t) +
                known.pairs.size() * sizeof(PairLikelihoods));
  ByteWriter out(bytes);
  out.put_bytes(as_bytes(kMagic));
  out.put(key);
  out.put(known.model);
  out.put(uint64_t{known.pairs.size()});
  for (const PairLikelihoods& pair : known.pairs) {
    out.put(pair.chosen);
    out.put(pair.rejected);
  }
  out.put(hash_bytes(bytes));
  fs::create_directories(file.parent_path());
  AtomicFile to(file);
  to.write(bytes);
  to.commit();
}

void Reference::add(const std::string& set, const UsedRows& used,
                    std::span<const PairLikelihoods> pairs) {
  std::vector<PairLikelihoods>& known = sets_[set];
  size_t next = 0;
  for (uint64_t i = 0; i < used.count; ++i) {
    const auto [first, count] = used.rows->pairs_of(used.index(i));
    if (known.size() < first + count) known.resize(first + count, {kUnknown, kUnknown});
    for (uint64_t pair = 0; pair < count; ++pair) known[first + pair] = pairs[next++];
  }
}

std::vector<PairLikelihoods> Reference::of(const std::string& set, const data::Rows& rows,
                                           std::span<const uint64_t> indices) const {
  const std::vector<PairLikelihoods>& known = sets_.at(set);
  std::vector<PairLikelihoods> found;
  for (const uint64_t index : indices) {
    const auto [first, count] = rows.pairs_of(index);
    for (uint64_t pair = first; pair < first + count; ++pair) {
      if (pair >= known.size() || std::isnan(known[pair].chosen)) {
        throw Error(fmt::format("the reference of pair {} of {} is unknown", pair, set));
      }
      found.push_back(known[pair]);
    }
  }
  return found;
}

}  // namespace thinwire::train

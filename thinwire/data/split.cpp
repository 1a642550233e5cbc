#include "thinwire/data/split.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace thinwire::data {
namespace {

constexpr uint64_t kWantedBlock = 64;      // documents
constexpr double kMinHeldOut = 4096;       // bytes: a few rows of text to measure a loss on
constexpr double kMostOfShortTexts = 0.1;  // held out to reach kMinHeldOut

// Whether this fraction of the documents holds out a whole block of kWantedBlock, but not all.
bool fills_wanted_block(double fraction, uint64_t documents) {
  const uint64_t blocks = documents / kWantedBlock;
  return blocks > 1 && std::floor(static_cast<double>(blocks) * fraction + 0.5) >= 1;
}

}  // namespace

uint64_t Split::blocks_before(uint64_t blocks) const {
  return static_cast<uint64_t>(std::floor(static_cast<double>(blocks) * fraction_ + 0.5));
}

bool split_needs_more(const config::DataSection& data, const TextSize& first) {
  return data.validation_block == 0 && data.validation_fraction > 0 &&
         !fills_wanted_block(data.validation_fraction, first.documents);
}

Split split_of(const config::DataSection& data, const TextSize& size) {
  const double fraction = data.validation_fraction;
  if (data.validation_block > 0) return {fraction, static_cast<uint64_t>(data.validation_block)};
  if (!split_needs_more(data, size) || size.documents == 0) return {fraction, kWantedBlock};
  const auto documents = static_cast<double>(size.documents);
  const double for_bytes =
      std::min(kMinHeldOut / static_cast<double>(size.bytes), kMostOfShortTexts);
  const double share = std::max({fraction, for_bytes, 1 / documents});
  const auto held_out = static_cast<uint64_t>(std::max(share * documents, 1.0));
  return {share, std::min(std::bit_floor(held_out), kWantedBlock)};
}

}  // namespace thinwire::data

#include "thinwire/data/split.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "thinwire/base/rng.h"

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

namespace {

constexpr size_t kSegmentBytes = 4096;

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0u) == 0x80; }

// Where to cut: after the last line break within the first kSegmentBytes, else after the last
// space, else between characters.
size_t segment_end(std::string_view text) {
  if (text.size() <= kSegmentBytes) return text.size();
  for (const char separator : {'\n', ' '}) {
    const size_t at = text.rfind(separator, kSegmentBytes - 1);
    if (at != std::string_view::npos) return at + 1;
  }
  size_t end = kSegmentBytes;
  while (is_continuation(text[end])) --end;
  return end;
}

}  // namespace

void TextSample::add(std::string_view document) {
  while (!document.empty()) {
    const size_t end = segment_end(document);
    add_segment(document.substr(0, end));
    document.remove_prefix(end);
  }
}

void TextSample::add_segment(std::string_view text) {
  const uint64_t number = count_++;
  const uint64_t priority = mix_bits(number);
  const bool full = bytes_ + text.size() > budget_;
  if (full && (kept_.empty() || priority > kept_.front().priority)) return;
  const auto by_priority = [](const Segment& a, const Segment& b) {
    return a.priority < b.priority;
  };
  kept_.push_back({priority, number, std::string(text)});
  std::ranges::push_heap(kept_, by_priority);
  bytes_ += text.size();
  while (bytes_ > budget_) {
    bytes_ -= kept_.front().text.size();
    std::ranges::pop_heap(kept_, by_priority);
    kept_.pop_back();
  }
}

std::vector<std::string> TextSample::take() {
  std::ranges::sort(kept_, {}, &Segment::number);
  std::vector<std::string> texts;
  texts.reserve(kept_.size());
  for (Segment& segment : kept_) texts.push_back(std::move(segment.text));
  kept_.clear();
  bytes_ = 0;
  return texts;
}

}  // namespace thinwire::data

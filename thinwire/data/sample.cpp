#include "thinwire/data/sample.h"

#include <algorithm>

#include "thinwire/base/rng.h"

namespace thinwire::data {
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

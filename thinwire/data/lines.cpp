#include "thinwire/data/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/data/utf8.h"

namespace thinwire::data {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 16;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_letter(char c) { return (c >= ' ' && c <= '~') || c == '\t' || c == '\n' || c == '\r'; }

// The name that iconv has for the encoding, if the text begins as one in UTF-16 does.
std::string_view utf16_of(std::string_view text) {
  if (text.size() < 4) return {};
  const bool wider = text.starts_with(std::string_view("\xFF\xFE\0\0", 4));  // UTF-32
  if ((text.starts_with("\xFF\xFE") && !wider) || text.starts_with("\xFE\xFF")) return "UTF-16";
  const auto is_pair = [&](size_t letter, size_t zero) {
    return is_letter(text[letter]) && text[zero] == '\0';
  };
  if (is_pair(0, 1) && is_pair(2, 3)) return "UTF-16LE";
  return is_pair(1, 0) && is_pair(3, 2) ? "UTF-16BE" : std::string_view();
}

}  // namespace

LineReader::LineReader(std::filesystem::path path, size_t longest, bool replace_invalid,
                       bool mark_faults)
    : path_(std::move(path)),
      longest_(longest),
      replace_invalid_(replace_invalid),
      mark_faults_(mark_faults),
      stream_(ByteStream::open(path_)) {
  fill();
  if (buffer_.starts_with(kByteOrderMark)) at_ = searched_ = offset_ = kByteOrderMark.size();
}

void LineReader::fill() {
  buffer_.erase(0, at_);
  searched_ -= at_;
  at_ = 0;
  const size_t old = buffer_.size();
  buffer_.resize(old + kChunkBytes);
  buffer_.resize(old + stream_->read(std::span(buffer_).subspan(old)));
  hash_.update(as_bytes(std::string_view(buffer_).substr(old)));
  if (!mark_faults_) refuse_binary(old);
  at_end_ = buffer_.size() == old;
}

void LineReader::refuse_binary(size_t from) const {
  const std::string_view encoding = offset_ + from == 0 ? utf16_of(buffer_) : std::string_view();
  if (!encoding.empty()) {
    throw Error(
        fmt::format("{}: this text is in UTF-16, not UTF-8; `iconv -f {} -t UTF-8 FILE > "
                    "NEW_FILE` converts it",
                    path_.string(), encoding));
  }
  const size_t nul = buffer_.find('\0', from);
  if (nul == std::string::npos) return;
  throw Error(fmt::format("{}: byte {} is NUL: this is a binary file, not text", path_.string(),
                          offset_ + nul));
}

bool LineReader::next(Line& line) {
  while (true) {
    const size_t end = std::min(buffer_.find('\n', searched_), buffer_.size());
    const bool found = end < buffer_.size();
    if (end - at_ > longest_) {
      take(longest_, false, line);
      return true;
    }
    if (found || (at_end_ && end > at_)) {
      take(end - at_, true, line);
      if (found) skip_line_break();
      return true;
    }
    if (at_end_) return false;
    searched_ = end;
    fill();
  }
}

void LineReader::take(size_t bytes, bool ends, Line& line) {
  const std::string_view raw = std::string_view(buffer_).substr(at_, bytes);
  line.text.clear();
  line.fault.clear();
  line.number = number_;
  line.begins = !inside_line_;
  line.ends = ends;
  uint64_t replaced = 0;
  size_t left = append_repaired(raw, line.text, replaced);
  if (left > 0 && ends) {
    line.text += kReplacementCharacter;
    ++replaced;
    left = 0;
  }
  if (replaced > 0 && !replace_invalid_) {
    if (!mark_faults_) refuse(valid_utf8_prefix(raw));
    line.fault = "is not UTF-8";
    replaced = 0;
  }
  if (mark_faults_ && raw.find('\0') != std::string_view::npos) line.fault = "holds a NUL byte";
  if (ends && line.text.ends_with('\r')) line.text.pop_back();
  replaced_ += replaced;
  at_ += bytes - left;
  offset_ += bytes - left;
  searched_ = at_;
  inside_line_ = !ends;
  number_ += ends ? 1 : 0;
}

void LineReader::skip_line_break() {
  ++at_;
  ++offset_;
  searched_ = at_;
}

void LineReader::refuse(size_t position) const {
  throw Error(fmt::format(
      "{}: byte {} (0x{:02X}, line {}) is not UTF-8; data.invalid_utf8=replace replaces it "
      "with U+FFFD",
      path_.string(), offset_ + position, static_cast<uint8_t>(buffer_[at_ + position]), number_));
}

}  // namespace thinwire::data

#include "thinwire/transport/relay/nats_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace thinwire::transport {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr std::string_view kBlanks = " \t";

using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
  Words words;
  for (size_t at = line.find_first_not_of(kBlanks); at != line.npos;
       at = line.find_first_not_of(kBlanks, at)) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<size_t> length_in(std::string_view word) {
  size_t length = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, length);
  const bool valid = error == std::errc() && stop == end && length <= kMaxNatsContent;
  return valid ? std::optional(length) : std::nullopt;
}

// Headers and body together, and the headers among them.
struct Content {
  size_t bytes = 0;
  size_t headers = 0;
};

// Takes the lengths from the end of the words.
std::optional<Content> take_content(Words& words, bool with_headers) {
  const size_t lengths = with_headers ? 2 : 1;
  if (words.size() < lengths) return std::nullopt;
  const auto bytes = length_in(words.back());
  const auto headers = with_headers ? length_in(words[words.size() - 2]) : size_t{0};
  words.resize(words.size() - lengths);
  if (!bytes || !headers || *headers > *bytes) return std::nullopt;
  return Content{*bytes, *headers};
}

// A line, understood; the content that must follow it, if any.
struct Line {
  NatsFrame frame;
  std::optional<Content> content = {};
};

// PUB subject [reply] bytes; HPUB subject [reply] headers bytes.
std::optional<Line> publish_line(Words words, bool with_headers) {
  const auto content = take_content(words, with_headers);
  if (!content || words.empty() || words.size() > 2) return std::nullopt;
  Line line{{.verb = NatsVerb::kPublish, .subject = std::string(words[0])}, content};
  if (words.size() == 2) line.frame.reply = words[1];
  return line;
}

// MSG subject sid [reply] bytes; HMSG subject sid [reply] headers bytes.
std::optional<Line> deliver_line(Words words, bool with_headers) {
  const auto content = take_content(words, with_headers);
  if (!content || words.size() < 2 || words.size() > 3) return std::nullopt;
  Line line{
      {.verb = NatsVerb::kDeliver, .subject = std::string(words[0]), .sid = std::string(words[1])},
      content};
  if (words.size() == 3) line.frame.reply = words[2];
  return line;
}

// SUB subject [queue] sid.
std::optional<Line> subscribe_line(const Words& words) {
  if (words.size() < 2 || words.size() > 3) return std::nullopt;
  return Line{{.verb = NatsVerb::kSubscribe,
               .subject = std::string(words.front()),
               .sid = std::string(words.back())}};
}

// UNSUB sid [messages].
std::optional<Line> unsubscribe_line(const Words& words) {
  if (words.empty() || words.size() > 2) return std::nullopt;
  return Line{
      {.verb = NatsVerb::kUnsubscribe, .sid = std::string(words[0]), .later = words.size() == 2}};
}

bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' && c != '\t'; }

std::optional<Line> parse_line(std::string_view line) {
  if (std::ranges::any_of(line, is_control)) return std::nullopt;
  const size_t end = std::min(line.find_first_of(kBlanks), line.size());
  const std::string_view verb = line.substr(0, end);
  const std::string_view rest = line.substr(std::min(end + 1, line.size()));
  if (verb == "PUB" || verb == "HPUB") return publish_line(words_of(rest), verb == "HPUB");
  if (verb == "MSG" || verb == "HMSG") return deliver_line(words_of(rest), verb == "HMSG");
  if (verb == "SUB") return subscribe_line(words_of(rest));
  if (verb == "UNSUB") return unsubscribe_line(words_of(rest));
  constexpr std::pair<std::string_view, NatsVerb> kOthers[] = {
      {"INFO", NatsVerb::kInfo}, {"CONNECT", NatsVerb::kConnect}, {"PING", NatsVerb::kPing},
      {"PONG", NatsVerb::kPong}, {"+OK", NatsVerb::kOk},          {"-ERR", NatsVerb::kError}};
  const auto* const other =
      std::ranges::find(kOthers, verb, &std::pair<std::string_view, NatsVerb>::first);
  if (other == std::end(kOthers)) return std::nullopt;
  return Line{{.verb = other->second, .text = std::string(rest)}};
}

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void NatsFrameReader::add(std::span<const uint8_t> bytes) {
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(at_));
  scanned_ -= at_;
  at_ = 0;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<NatsFrame>> NatsFrameReader::next() {
  const auto broken = [this](std::string_view what) {
    broken_ = true;
    return fail(FailureKind::kCorruptPayload, fmt::format("not NATS's protocol: {}", what));
  };
  if (broken_) return broken("see above");
  const std::string_view all = text_of(std::span(bytes_).subspan(at_));
  const size_t length = all.find(kLineEnd, scanned_ - at_);
  if (length > kMaxNatsLine && all.size() > kMaxNatsLine) return broken("a line is too long");
  if (length == all.npos) {
    scanned_ = at_ + all.size() - (all.ends_with('\r') ? 1 : 0);
    return std::nullopt;
  }
  scanned_ = at_ + length;
  std::optional<Line> line = parse_line(all.substr(0, length));
  if (!line) return broken("an unknown message");
  NatsFrame& frame = line->frame;
  size_t size = length + kLineEnd.size();
  if (line->content) {
    frame.headers_at = size;
    frame.body_at = size + line->content->headers;
    frame.body_end = size + line->content->bytes;
    size = frame.body_end + kLineEnd.size();
    if (all.size() < size) return std::nullopt;
    if (all.substr(frame.body_end, kLineEnd.size()) != kLineEnd) {
      return broken("a message longer than it says");
    }
  }
  const auto begin = bytes_.begin() + static_cast<ptrdiff_t>(at_);
  frame.raw.assign(begin, begin + static_cast<ptrdiff_t>(size));
  at_ += size;
  scanned_ = at_;
  return std::optional(std::move(frame));
}

bool subject_matches(std::string_view pattern, std::string_view subject) {
  while (true) {
    if (pattern == ">") return true;
    const size_t end = pattern.find('.');
    const size_t length = subject.find('.');
    const std::string_view part = pattern.substr(0, end);
    if (part != "*" && part != subject.substr(0, length)) return false;
    if (end == pattern.npos || length == subject.npos) return end == length;
    pattern.remove_prefix(end + 1);
    subject.remove_prefix(length + 1);
  }
}

Bytes deliver_frame(std::string_view subject, std::string_view sid, std::string_view headers,
                    std::span<const uint8_t> body) {
  const std::string line = fmt::format("HMSG {} {} {} {}\r\n{}", subject, sid, headers.size(),
                                       headers.size() + body.size(), headers);
  Bytes frame;
  frame.reserve(line.size() + body.size() + kLineEnd.size());
  ByteWriter writer(frame);
  writer.put_bytes(as_bytes(line));
  writer.put_bytes(body);
  writer.put_bytes(as_bytes(kLineEnd));
  return frame;
}

}  // namespace thinwire::transport

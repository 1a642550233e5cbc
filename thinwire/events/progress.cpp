#include "thinwire/events/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/units.h"

namespace thinwire::events {
namespace {

constexpr double kLiveInterval = 0.1;
constexpr int kNarrowestBar = 8;
constexpr int kWidestBar = 24;
constexpr std::string_view kGap = "  ";
constexpr std::string_view kEraseToEnd = "\x1b[K";
constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kCyan = "\x1b[36m";
constexpr std::string_view kPlainStyle = "\x1b[0m";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_terminal(int file) {
  const std::string term = environment("TERM");
  return ::isatty(file) == 1 && !term.empty() && term != "dumb";
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

int columns_of(int file) {
  constexpr int kUnknown = 80;
  winsize size{};
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUnknown;
}

// Columns of a text: its UTF-8 characters, all of which are one column wide in what is shown here.
int width_of(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string first_columns(std::string_view text, int columns) {
  size_t end = 0;
  while (end < text.size()) {
    size_t next = end + 1;
    while (next < text.size() && width_of(text.substr(next, 1)) == 0) ++next;
    if (width_of(text.substr(0, next)) > columns) break;
    end = next;
  }
  return std::string(text.substr(0, end));
}

struct Styled {
  std::string text;
  std::string_view style;  // empty: as it is
};

int width_of(const std::vector<Styled>& pieces) {
  int width = 0;
  for (const Styled& piece : pieces) width += width_of(piece.text);
  return width;
}

std::string rendered(const std::vector<Styled>& pieces, bool colour) {
  std::string line;
  for (const Styled& piece : pieces) {
    const bool styled = colour && !piece.style.empty();
    line += styled ? fmt::format("{}{}{}", piece.style, piece.text, kPlainStyle) : piece.text;
  }
  return line;
}

std::vector<Styled> bar(double fraction, int width) {
  const bool utf8 = speaks_utf8();
  const int full = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  const auto repeat = [](std::string_view text, int times) {
    std::string result;
    for (int i = 0; i < times; ++i) result += text;
    return result;
  };
  return {{std::string(kGap), ""},
          {repeat(utf8 ? "━" : "=", full), kCyan},
          {repeat(utf8 ? "━" : "-", width - full), kDim}};
}

// The reader may have gone; it is not progress output's task to report that.
void put_to(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    text.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
  }
}

void append_field(const ProgressField& field, std::vector<Styled>& pieces) {
  pieces.push_back({std::string(kGap), ""});
  if (!field.name.empty()) pieces.push_back({field.name + " ", kDim});
  pieces.push_back({field.value, ""});
}

}  // namespace

Progress::Progress(std::string label, int64_t total, ProgressOptions options)
    : label_(std::move(label)),
      total_(total),
      options_(options),
      began_(monotonic_seconds()),
      done_(options.start),
      shown_done_(options.start),
      shown_at_(began_) {
  const Lock lock(screen_);
  if (options_.silent || shown_ != nullptr || quiet_) return;
  shown_ = this;
  mode_ = is_terminal(options_.file) ? Mode::kLive : Mode::kPlain;
  colour_ = environment("NO_COLOR").empty();
  if (mode_ == Mode::kLive) shown_at_ -= kLiveInterval;
}

Progress::~Progress() {
  const Lock lock(screen_);
  erase();
  if (shown_ == this) shown_ = nullptr;
}

bool Progress::live() const {
  const Lock lock(screen_);
  return mode_ == Mode::kLive;
}

bool Progress::due(int64_t done) const {
  const Lock lock(screen_);
  return is_due(done);
}

bool Progress::is_due(int64_t done) const {
  switch (mode_) {
    case Mode::kSilent:
      return false;
    case Mode::kLive:
      return monotonic_seconds() - shown_at_ >= kLiveInterval;
    case Mode::kPlain:
      break;
  }
  if (options_.plain_every > 0) {
    return done / options_.plain_every > shown_done_ / options_.plain_every;
  }
  return monotonic_seconds() - shown_at_ >= options_.plain_interval_s;
}

void Progress::update(int64_t done, std::vector<ProgressField> fields) {
  update(done, std::move(fields), estimate(done));
}

void Progress::update(int64_t done, std::vector<ProgressField> fields,
                      std::optional<double> left_s) {
  const Lock lock(screen_);
  const bool show_it = is_due(done);
  done_ = done;
  fields_ = std::move(fields);
  left_s_ = left_s;
  if (show_it) show();
}

void Progress::finish() {
  const Lock lock(screen_);
  if (mode_ == Mode::kPlain && done_ != shown_done_) show();
  erase();
  mode_ = Mode::kSilent;
}

void Progress::show() {
  if (mode_ == Mode::kLive) {
    put(fmt::format("\r{}{}", live_line(), kEraseToEnd));
    drawn_ = true;
  } else {
    put(plain_line() + "\n");
  }
  shown_done_ = done_;
  shown_at_ = monotonic_seconds();
}

void Progress::erase() {
  if (drawn_) put(fmt::format("\r{}", kEraseToEnd));
  drawn_ = false;
}

void Progress::put(std::string_view text) const { put_to(options_.file, text); }

std::string Progress::count_text() const {
  const auto text = [&](int64_t count) {
    if (options_.seconds) return format_seconds(static_cast<double>(count));
    return options_.bytes ? format_bytes(static_cast<double>(count)) : fmt::format("{}", count);
  };
  return total_ > 0 ? fmt::format("{}/{}", text(done_), text(total_)) : text(done_);
}

std::optional<double> Progress::estimate(int64_t done) const {
  if (done <= options_.start) return std::nullopt;
  const double seconds_a_unit =
      (monotonic_seconds() - began_) / static_cast<double>(done - options_.start);
  return seconds_a_unit * static_cast<double>(total_ - done);
}

std::string Progress::left_text() const {
  if (total_ <= done_ || !left_s_) return "";
  return (*left_s_ < 1 ? "< 1 s" : format_seconds(*left_s_)) +
         " left";  // an estimate needs no milliseconds
}

std::string Progress::plain_line() const {
  std::vector<Styled> pieces = {{label_ + std::string(kGap) + count_text(), ""}};
  for (const ProgressField& field : fields_) append_field(field, pieces);
  if (const std::string left = left_text(); !left.empty()) append_field({"", left}, pieces);
  return rendered(pieces, /*colour=*/false);
}

// Fields that do not fit are dropped, the last ones first, then the time left; the bar takes the
// remaining width. The last column stays free, because a full line would wrap.
std::string Progress::live_line() const {
  const int width = columns_of(options_.file) - 1;
  std::vector<Styled> head = {{label_, kBold}};
  std::vector<Styled> tail;
  append_field({"", count_text()}, tail);
  const std::string left = left_text();
  const int left_width = left.empty() ? 0 : width_of(left) + static_cast<int>(kGap.size());
  for (const ProgressField& field : fields_) {
    std::vector<Styled> longer = tail;
    append_field(field, longer);
    if (width_of(head) + width_of(longer) + left_width > width) break;
    tail = std::move(longer);
  }
  if (width_of(head) + width_of(tail) + left_width <= width && !left.empty()) {
    append_field({"", left}, tail);
  }
  const int spare = width - width_of(head) - width_of(tail) - static_cast<int>(kGap.size());
  if (spare < 0) {
    return first_columns(rendered(head, false) + rendered(tail, false), width);
  }
  if (total_ > 0 && spare >= kNarrowestBar) {
    const double fraction = static_cast<double>(done_) / static_cast<double>(total_);
    for (Styled& piece : bar(fraction, std::min(spare, kWidestBar)))
      head.push_back(std::move(piece));
  }
  return rendered(head, colour_) + rendered(tail, colour_);
}

void set_quiet() {
  const Lock lock(Progress::screen_);
  Progress::quiet_ = true;
}

Display terminal_display() {
  return {.message = print_message, .needed = print_needed, .progress = true};
}

void print_message(std::string_view text) {
  {
    const Lock lock(Progress::screen_);
    if (Progress::quiet_) return;
  }
  print_needed(text);
}

void print_needed(std::string_view text) {
  const Lock lock(Progress::screen_);
  Progress* const shown = Progress::shown_;
  if (shown == nullptr || shown->mode_ != Progress::Mode::kLive) {
    put_to(STDERR_FILENO, fmt::format("{}\n", text));
    return;
  }
  const bool redraw = shown->drawn_;
  shown->erase();
  shown->put(fmt::format("{}\n", text));
  if (redraw) shown->show();
}

}  // namespace thinwire::events

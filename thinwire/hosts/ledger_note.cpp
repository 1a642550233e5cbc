// LedgerNote (served_run.h).
#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/hosts/served_run.h"

namespace thinwire::hosts {
namespace {

using membership::Position;

constexpr const char* kFile = "ledger";

// "70 0123…\n": a record's number and its hash.
std::optional<Position> parse(std::string_view text) {
  Position position;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), position.sequence);
  const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
  if (error != std::errc() || !rest.starts_with(' ') || !rest.ends_with('\n')) return std::nullopt;
  const auto hash = parse_sha256(rest.substr(1, rest.size() - 2));
  if (!hash) return std::nullopt;
  position.hash = *hash;
  return position;
}

}  // namespace

LedgerNote::LedgerNote(const fs::path& server_folder) : file_(server_folder / kFile) {
  if (!fs::exists(file_)) return;
  const auto position = parse(read_text_file(file_));
  if (!position) {
    throw Error(
        fmt::format("{} is damaged: it holds the number and the hash of a record; remove "
                    "it to go on from what the store has",
                    file_.string()));
  }
  remembered_ = written_ = *position;
}

void LedgerNote::reached(const Position& position) {
  const Lock lock(mutex_);
  reached_ = position;
}

void LedgerNote::keep(double now) {
  Position reached;
  {
    const Lock lock(mutex_);
    reached = reached_;
  }
  if (reached.sequence == 0 || reached.sequence <= written_.sequence) return;
  if (written_.sequence == 0) return write(reached);
  if (waiting_.sequence <= written_.sequence) {
    waiting_ = reached;
    due_ = now + kLastingSeconds;
  } else if (now >= due_) {
    write(waiting_);
  }
}

void LedgerNote::keep_last() {
  const Lock lock(mutex_);
  if (reached_.sequence > written_.sequence) write(reached_);
}

void LedgerNote::write(const Position& position) {
  write_file(file_, fmt::format("{} {}\n", position.sequence, to_hex(position.hash)));
  written_ = position;
}

}  // namespace thinwire::hosts

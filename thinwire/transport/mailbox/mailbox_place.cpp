#include "thinwire/transport/mailbox/mailbox_place.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "thinwire/base/sha256.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {
namespace {

constexpr std::string_view kMagic = "TWMB";
constexpr uint16_t kVersion = 1;
constexpr size_t kDigits = 20;        // of a number; enough for all of 64 bits
constexpr size_t kRecordDigits = 12;  // of a sequence

std::optional<uint64_t> parse_digits(std::string_view text, size_t digits) {
  if (text.size() != digits) return std::nullopt;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

constexpr int kDepth = 2;  // of files below a participant's folder

void remove_partial_files_in(const SharedFolder& folder, int depth) {
  const auto names = folder.names();
  if (!names) return;
  for (const std::string& name : *names) {
    if (name.ends_with(kPartialSuffix)) {
      (void)folder.remove(name);
      continue;
    }
    if (depth == 0) continue;
    if (const auto below = folder.folder(name)) remove_partial_files_in(*below, depth - 1);
  }
}

}  // namespace

MailboxPlace::MailboxPlace(fs::path folder, std::string run, std::string self)
    : folder_(std::move(folder)), run_(std::move(run)), self_(std::move(self)) {
  check_courier_name("a run", run_);
  check_courier_name("a participant", self_);
}

bool MailboxPlace::usable() const {
  std::error_code ignored;
  return fs::is_directory(folder_, ignored) && ::access(folder_.c_str(), R_OK | W_OK | X_OK) == 0;
}

std::vector<std::string> MailboxPlace::participants() const {
  const auto all = SharedFolder::open(folder_);
  if (!all) return {};
  const auto run = all->folder(run_);
  auto names = run ? run->names() : tl::unexpected(run.error());
  if (!names) return {};
  std::erase_if(*names, [](const std::string& name) { return !is_courier_name(name); });
  return std::move(*names);
}

Result<SharedFolder> MailboxPlace::of(const std::string& participant,
                                      const std::vector<std::string>& below) const {
  Result<SharedFolder> at = SharedFolder::open(folder_);
  if (at) at = at->folder(run_);
  if (at) at = at->folder(participant);
  for (const std::string& name : below) {
    if (at) at = at->folder(name);
  }
  return at;
}

Result<SharedFolder> MailboxPlace::own(const std::vector<std::string>& below) const {
  Result<SharedFolder> at = SharedFolder::open(folder_);
  if (at) at = at->make_folder(run_);
  if (at) at = at->make_folder(self_);
  for (const std::string& name : below) {
    if (at) at = at->make_folder(name);
  }
  return at;
}

void MailboxPlace::remove_partial_files() const {
  if (const auto own = of(self_, {})) remove_partial_files_in(*own, kDepth);
}

void MailboxPlace::remove_own() const {
  std::error_code ignored;  // what is left does no harm
  fs::remove_all(folder_ / run_ / self_, ignored);
}

std::string print_numbered(const NumberedName& name) {
  return fmt::format("{:0{}}-{}", name.number, kDigits, name.text);
}

std::optional<NumberedName> parse_numbered(std::string_view name) {
  if (name.size() <= kDigits || name[kDigits] != '-') return std::nullopt;
  const auto number = parse_digits(name.substr(0, kDigits), kDigits);
  const std::string_view text = name.substr(kDigits + 1);
  if (!number || !is_courier_name(text)) return std::nullopt;
  return NumberedName{*number, std::string(text)};
}

std::string record_name(uint64_t sequence) {
  return fmt::format("{:0{}}", sequence, kRecordDigits);
}

std::optional<uint64_t> parse_record_name(std::string_view name) {
  const auto sequence = parse_digits(name, kRecordDigits);
  return sequence && *sequence > 0 ? sequence : std::nullopt;
}

Bytes seal(std::span<const uint8_t> content) {
  Bytes file;
  ByteWriter writer(file);
  writer.put_bytes(as_bytes(kMagic));
  writer.put(kVersion);
  writer.put_bytes(sha256(content).bytes);
  writer.put_bytes(content);
  return file;
}

std::optional<Bytes> unseal(std::span<const uint8_t> file) {
  ByteReader reader(file);
  const auto magic = reader.get_bytes(kMagic.size());
  const auto version = reader.get<uint16_t>();
  const auto hash = reader.get_bytes(sizeof(Sha256));
  const auto content = reader.get_bytes(reader.remaining());
  if (!reader.at_end() || !std::ranges::equal(magic, as_bytes(kMagic)) || version != kVersion) {
    return std::nullopt;
  }
  if (!std::ranges::equal(hash, sha256(content).bytes)) return std::nullopt;
  return Bytes(content.begin(), content.end());
}

}  // namespace thinwire::transport

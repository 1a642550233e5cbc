#include "thinwire/transport/mailbox/mailbox_statements.h"

#include <algorithm>
#include <utility>

namespace thinwire::transport {
namespace {

constexpr size_t kMaxFiles = 1 << 13;  // of one author that are considered; the newest
constexpr int kMaxTries = 100;         // to read a file whole

}  // namespace

StatementOutbox::StatementOutbox(const MailboxPlace& place, std::string folder,
                                 const KeptStatements& kept)
    : place_(place), folder_(std::move(folder)), kept_(kept) {
  const auto own = place_.of(place_.self(), {folder_});
  const auto names = own ? own->names() : tl::unexpected(own.error());
  if (!names) return;  // there are none yet
  for (const std::string& name : *names) {
    if (auto earlier = parse_numbered(name)) written_.push_back(*std::move(earlier));
  }
  if (!written_.empty()) last_ = written_.back().number;
}

Result<void> StatementOutbox::write(const std::string& text, std::span<const uint8_t> content,
                                    uint64_t unix_us) {
  const auto own = place_.own({folder_});
  if (!own) return tl::unexpected(own.error());
  last_ = std::max(last_ + 1, unix_us);
  const NumberedName name{last_, text};
  if (auto written = own->write(print_numbered(name), seal(content)); !written) return written;
  written_.push_back(name);
  return {};
}

void StatementOutbox::clean(uint64_t unix_us) {
  const auto age = static_cast<uint64_t>(kept_.seconds * 1e6);
  while (!written_.empty() &&
         (written_.size() > kept_.count || written_.front().number + age < unix_us)) {
    remove_oldest();
  }
}

void StatementOutbox::remove_oldest() {
  if (const auto own = place_.of(place_.self(), {folder_})) {
    (void)own->remove(print_numbered(written_.front()));
  }
  written_.pop_front();
}

StatementInbox::StatementInbox(const MailboxPlace& place, std::string folder)
    : place_(place), folder_(std::move(folder)) {}

std::vector<StatementInbox::Found> StatementInbox::take(const std::vector<std::string>& authors,
                                                        const Wanted& wanted) {
  std::vector<Found> found;
  for (const std::string& author : authors) take_from(author, wanted, found);
  return found;
}

void StatementInbox::take_from(const std::string& author, const Wanted& wanted,
                               std::vector<Found>& found) {
  const auto folder = place_.of(author, {folder_});
  auto names = folder ? folder->names() : tl::unexpected(folder.error());
  if (!names) return;
  std::erase_if(*names, [](const std::string& name) { return !parse_numbered(name); });
  if (names->size() > kMaxFiles) names->erase(names->begin(), names->end() - kMaxFiles);
  const auto before = std::exchange(seen_[author], {});
  for (const std::string& name : *names) {
    const auto known = before.find(name);
    Seen& seen = seen_[author][name];
    if (known != before.end()) seen = known->second;
    if (seen.done) continue;
    const std::string text = parse_numbered(name)->text;
    const auto file = wanted(author, text) ? folder->read(name, kMaxSealedBytes) : Bytes();
    auto content = file ? unseal(*file) : std::nullopt;
    seen.done = content || ++seen.tries >= kMaxTries || !wanted(author, text);
    if (content) found.push_back({author, text, *std::move(content)});
  }
}

}  // namespace thinwire::transport

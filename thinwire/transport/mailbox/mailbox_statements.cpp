#include "thinwire/transport/mailbox/mailbox_statements.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace thinwire::transport {
namespace {

constexpr size_t kMaxFiles = 1 << 13;  // of one author that are read at once; the newest
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
  Author& known = authors_[author];
  if (known.waiting.empty() && *names == known.names) return;
  for (const std::string& name : *names) {
    if (std::ranges::binary_search(known.names, name)) continue;
    const auto parsed = parse_numbered(name);
    if (parsed && wanted(author, parsed->text)) known.waiting.emplace(name, 0);
  }
  known.names = std::move(*names);
  while (known.waiting.size() > kMaxFiles) known.waiting.erase(known.waiting.begin());
  for (auto one = known.waiting.begin(); one != known.waiting.end();) {
    auto& [name, tries] = *one;
    const auto file = folder->read(name, kMaxSealedBytes);
    auto content = file ? unseal(*file) : std::nullopt;
    const bool done = content || ++tries >= kMaxTries;
    if (content) found.push_back({author, parse_numbered(name)->text, *std::move(content)});
    one = done ? known.waiting.erase(one) : std::next(one);
  }
}

}  // namespace thinwire::transport

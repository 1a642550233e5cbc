#include "thinwire/transport/mailbox/drop_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "thinwire/transport/mailbox/mailbox_chunks.h"

namespace thinwire::transport {
namespace {

// A holder may be away for days; what it has not seen by then stays in its folder.
constexpr KeptStatements kKept{7.0 * 24 * 3600, 4096};

}  // namespace

DropRequests::DropRequests(const MailboxPlace& place, std::string coordinator)
    : place_(place),
      coordinator_(std::move(coordinator)),
      outbox_(place, kDropFolder, kKept),
      inbox_(place, kDropFolder) {}

Result<void> DropRequests::add(const std::string& holder, const Sha256& chunk) {
  if (place_.self() != coordinator_) {
    return fail(FailureKind::kRefused,
                fmt::format("only {} has others' chunks dropped in this mailbox", coordinator_));
  }
  ByteWriter(added_[holder]).put_bytes(chunk.bytes);
  return {};
}

void DropRequests::write(uint64_t unix_us) {
  for (auto at = added_.begin(); at != added_.end();) {
    auto& [holder, names] = *at;
    const auto first = std::span(names).first(std::min(names.size(), kMaxMessageBytes));
    if (!outbox_.write(holder, first, unix_us)) return;
    names.erase(names.begin(), names.begin() + static_cast<ptrdiff_t>(first.size()));
    if (names.empty()) at = added_.erase(at);
  }
  outbox_.clean(unix_us);
}

void DropRequests::carry_out() {
  if (place_.self() == coordinator_) return;
  const auto for_self = [this](const std::string&, const std::string& holder) {
    return holder == place_.self();
  };
  for (const auto& request : inbox_.take({coordinator_}, for_self)) {
    ByteReader reader(request.content);
    Sha256 name;
    while (reader.remaining() >= name.bytes.size()) {
      std::ranges::copy(reader.get_bytes(name.bytes.size()), name.bytes.begin());
      (void)remove_chunk(place_, name);
    }
  }
}

}  // namespace thinwire::transport

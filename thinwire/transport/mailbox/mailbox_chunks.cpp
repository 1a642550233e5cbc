#include "thinwire/transport/mailbox/mailbox_chunks.h"

#include <fmt/format.h>

#include <vector>

namespace thinwire::transport {
namespace {

// So that no folder has too many files.
std::vector<std::string> folder_of(const std::string& hex) {
  return {kBlobFolder, hex.substr(0, 2)};
}

}  // namespace

Result<void> store_chunk(const MailboxPlace& place, const Chunk& chunk) {
  const std::string hex = to_hex(chunk.name);
  const auto folder = place.own(folder_of(hex));
  if (!folder) return tl::unexpected(folder.error());
  const auto before = folder->read(hex, kMaxMessageBytes);
  if (before && sha256(*before) == chunk.name) return {};
  return folder->write(hex, chunk.bytes);
}

Result<FoundChunk> find_chunk(const MailboxPlace& place, const std::string& holder,
                              const Sha256& name) {
  const std::string hex = to_hex(name);
  const auto folder = place.of(holder, folder_of(hex));
  auto bytes = folder ? folder->read(hex, kMaxMessageBytes) : tl::unexpected(folder.error());
  if (bytes) {
    const bool whole = sha256(*bytes) == name;
    return FoundChunk{*std::move(bytes), whole};
  }
  if (bytes.error().kind == FailureKind::kCorruptPayload) return FoundChunk{};  // far too long
  return fail(FailureKind::kLostPeer, fmt::format("{} has no chunk {}", holder, hex));
}

std::vector<Sha256> list_chunks(const MailboxPlace& place, const std::string& holder) {
  std::vector<Sha256> chunks;
  const auto all = place.of(holder, {kBlobFolder});
  const auto folders = all ? all->names() : tl::unexpected(all.error());
  if (!folders) return chunks;
  for (const std::string& name : *folders) {
    const auto folder = all->folder(name);
    const auto files = folder ? folder->names() : tl::unexpected(folder.error());
    if (!files) continue;
    for (const std::string& file : *files) {
      const auto chunk = parse_sha256(file);
      if (chunk && file.starts_with(name)) chunks.push_back(*chunk);
    }
  }
  return chunks;
}

Result<void> remove_chunk(const MailboxPlace& place, const Sha256& name) {
  const std::string hex = to_hex(name);
  const auto folder = place.of(place.self(), folder_of(hex));
  if (folder) return folder->remove(hex);
  if (folder.error().kind == FailureKind::kLostPeer) return {};
  return tl::unexpected(folder.error());
}

}  // namespace thinwire::transport

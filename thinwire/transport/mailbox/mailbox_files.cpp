#include "thinwire/transport/mailbox/mailbox_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {
namespace {

// So that no folder has too many files. A blob's are in one.
std::vector<std::string> folder_of(const Sha256& blob) {
  return {kBlobFolder, to_hex(blob).substr(0, 2)};
}

std::string file_of(const ChunkKey& key) { return print_key(key, '-'); }

}  // namespace

Result<void> store_chunk(const MailboxPlace& place, const Chunk& chunk) {
  const std::string file = file_of(chunk.key);
  const auto folder = place.own(folder_of(chunk.key.blob));
  if (!folder) return tl::unexpected(folder.error());
  const auto before = folder->read(file, kMaxMessageBytes);
  if (before && sha256(*before) == chunk.key.chunk) return {};
  return folder->write(file, chunk.bytes);
}

Result<FoundChunk> find_chunk(const MailboxPlace& place, const std::string& holder,
                              const ChunkKey& key) {
  const auto folder = place.of(holder, folder_of(key.blob));
  auto bytes =
      folder ? folder->read(file_of(key), kMaxMessageBytes) : tl::unexpected(folder.error());
  if (bytes) {
    const bool whole = sha256(*bytes) == key.chunk;
    return FoundChunk{*std::move(bytes), whole};
  }
  if (bytes.error().kind == FailureKind::kCorruptPayload) return FoundChunk{};  // far too long
  return fail(FailureKind::kLostPeer, fmt::format("{} has no chunk {}", holder, to_hex(key.chunk)));
}

std::vector<StoredBlob> list_blobs(const MailboxPlace& place, const std::string& holder) {
  std::vector<StoredBlob> blobs;
  const auto all = place.of(holder, {kBlobFolder});
  const auto folders = all ? all->names() : tl::unexpected(all.error());
  if (!folders) return blobs;
  for (const std::string& name : *folders) {
    const auto folder = all->folder(name);
    const auto files = folder ? folder->names() : tl::unexpected(folder.error());
    if (!files) continue;
    for (const std::string& file : *files) {  // in the order of names
      const auto key = parse_key(file, '-');
      if (!key || !file.starts_with(name)) continue;
      if (blobs.empty() || blobs.back().name != key->blob) blobs.push_back({key->blob});
      ++blobs.back().chunks;
    }
  }
  return blobs;
}

Result<void> remove_blob(const MailboxPlace& place, const Sha256& name) {
  const auto folder = place.of(place.self(), folder_of(name));
  const auto files = folder ? folder->names() : tl::unexpected(folder.error());
  if (!files) {
    if (files.error().kind == FailureKind::kLostPeer) return {};
    return tl::unexpected(files.error());
  }
  for (const std::string& file : *files) {
    if (!file.starts_with(to_hex(name))) continue;
    if (auto removed = folder->remove(file); !removed) return removed;
  }
  return {};
}

RecordFiles::RecordFiles(const MailboxPlace& place, std::string coordinator)
    : place_(place), coordinator_(std::move(coordinator)) {
  check_courier_name("a coordinator", coordinator_);
}

void RecordFiles::remove_damaged() {
  if (place_.self() != coordinator_) return;
  const auto streams = place_.of(coordinator_, {kRecordFolder});
  const auto names = streams ? streams->names() : tl::unexpected(streams.error());
  if (!names) return;  // there are none yet
  for (const std::string& stream : *names) {
    const auto folder = streams->folder(stream);
    const auto records = folder ? folder->names() : tl::unexpected(folder.error());
    if (!records) continue;
    for (const std::string& name : *records) {
      if (!parse_record_name(name)) continue;
      const auto file = folder->read(name, kMaxSealedBytes);
      const bool unreadable = !file && file.error().kind == FailureKind::kDeadline;
      if (!unreadable && (!file || !unseal(*file))) (void)folder->remove(name);
    }
  }
}

Result<uint64_t> RecordFiles::last(const std::string& stream) const {
  if (!place_.usable()) return fail(FailureKind::kDeadline, "the mailbox cannot be read");
  const auto folder = place_.of(coordinator_, {kRecordFolder, stream});
  const auto names = folder ? folder->names() : tl::unexpected(folder.error());
  if (!names) {
    if (names.error().kind == FailureKind::kLostPeer) return 0;
    return fail(FailureKind::kDeadline, names.error().message);
  }
  uint64_t last = 0;
  for (const std::string& name : *names) {
    if (parse_record_name(name) == last + 1) ++last;
  }
  return last;
}

Result<uint64_t> RecordFiles::append(const std::string& stream, uint64_t expected_last,
                                     const Bytes& record) {
  if (place_.self() != coordinator_) {
    return fail(FailureKind::kRefused,
                fmt::format("only {} appends records in this mailbox", coordinator_));
  }
  const auto folder = place_.own({kRecordFolder, stream});
  if (!folder) return tl::unexpected(folder.error());
  const uint64_t sequence = expected_last + 1;
  const bool follows = expected_last == 0 || folder->has(record_name(expected_last));
  if (!follows || folder->has(record_name(sequence))) {
    return fail(FailureKind::kStaleRound,
                fmt::format("the last sequence of {} is not {}", stream, expected_last));
  }
  if (auto written = folder->write(record_name(sequence), seal(record)); !written) {
    return tl::unexpected(written.error());
  }
  return sequence;
}

Result<Bytes> RecordFiles::read(const std::string& stream, uint64_t sequence) const {
  const auto folder = place_.of(coordinator_, {kRecordFolder, stream});
  const auto file = folder ? folder->read(record_name(sequence), kMaxSealedBytes)
                           : tl::unexpected(folder.error());
  auto record = file ? unseal(*file) : std::nullopt;
  if (record) return *std::move(record);
  return fail(FailureKind::kLostPeer, fmt::format("{} has no record {}", stream, sequence));
}

namespace {

// A holder may be away for days; what it has not seen by then stays in its folder.
constexpr KeptStatements kKept{7.0 * 24 * 3600, 4096};

}  // namespace

DropRequests::DropRequests(const MailboxPlace& place, std::string coordinator)
    : place_(place),
      coordinator_(std::move(coordinator)),
      outbox_(place, kDropFolder, kKept),
      inbox_(place, kDropFolder) {}

Result<void> DropRequests::add(const std::string& holder, const Sha256& blob) {
  if (place_.self() != coordinator_) {
    return fail(FailureKind::kRefused,
                fmt::format("only {} has others' blobs dropped in this mailbox", coordinator_));
  }
  ByteWriter(added_[holder]).put_bytes(blob.bytes);
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
      (void)remove_blob(place_, name);
    }
  }
}

}  // namespace thinwire::transport

#include "thinwire/transport/mailbox/mailbox_records.h"

#include <fmt/format.h>

#include <utility>

#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {

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

}  // namespace thinwire::transport

#include "thinwire/hosts/fetched_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "thinwire/train/replica.h"

namespace thinwire::hosts {
namespace {

constexpr size_t kRangeBytes = sizeof(Sha256) + sizeof(uint64_t) + sizeof(uint32_t);
constexpr std::chrono::seconds kPause(1);        // before what was not answered is asked again
constexpr std::chrono::milliseconds kLook(250);  // between looks at whether to stop

template <typename... Values>
Result<Bytes> refuse(fmt::format_string<Values...> text, Values&&... values) {
  return fail(FailureKind::kRefused, fmt::format(text, std::forward<Values>(values)...));
}

}  // namespace

Bytes encode_parts(const AgreementKey& key, std::span<const FileRange> ranges) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put_bytes(key);
  for (const FileRange& one : ranges) {
    out.put_bytes(one.file.bytes);
    out.put(one.first);
    out.put(one.bytes);
  }
  return bytes;
}

Result<PartsRequest> decode_parts(std::span<const uint8_t> bytes) {
  PartsRequest request;
  const size_t coded = bytes.size() - std::min(bytes.size(), request.key.size());
  request.ranges.resize(std::min<size_t>(coded / kRangeBytes, kMostRanges));
  ByteReader in(bytes);
  std::ranges::copy(in.get_bytes(request.key.size()), request.key.begin());
  uint64_t all = 0;
  bool empty = request.ranges.empty();
  for (FileRange& one : request.ranges) {
    std::ranges::copy(in.get_bytes(one.file.bytes.size()), one.file.bytes.begin());
    one.first = in.get<uint64_t>();
    one.bytes = in.get<uint32_t>();
    all += one.bytes;
    empty |= one.bytes == 0;
  }
  if (empty || !in.at_end() || all > kMostAtOnce) {
    return fail(FailureKind::kCorruptPayload, "this does not name parts of files");
  }
  return request;
}

Result<Bytes> read_ranges(const std::map<Sha256, FilePart>& files,
                          std::span<const FileRange> ranges) {
  Bytes all;
  const FilePart* open = nullptr;
  std::optional<MappedFile> mapped;
  for (const FileRange& one : ranges) {
    const auto found = files.find(one.file);
    if (found == files.end()) return refuse("this is not a file that the coordinator has");
    const FilePart& part = found->second;
    if (one.first > part.bytes || one.bytes > part.bytes - one.first) {
      return refuse("{} has {} bytes, and not {} from {} on", part.file.filename().string(),
                    part.bytes, one.bytes, one.first);
    }
    try {
      if (open != &part) mapped.emplace(part.file);
      open = &part;
      if (part.offset + part.bytes > mapped->bytes().size()) {
        return refuse("the coordinator no longer has {} as it was when the run was founded",
                      part.file.filename().string());
      }
      const auto bytes = mapped->bytes().subspan(part.offset + one.first, one.bytes);
      all.insert(all.end(), bytes.begin(), bytes.end());
    } catch (const Error& problem) {
      return refuse("the coordinator cannot read a file of the run: {}", problem.what());
    }
  }
  return all;
}

FetchedShards::FetchedShards(std::map<fs::path, transport::BlobId> files, Ask ask,
                             uint64_t most_bytes, const std::atomic<bool>* stop,
                             events::MessageSink message)
    : files_(std::move(files)),
      ask_(std::move(ask)),
      most_bytes_(std::max(most_bytes, 4 * kMostAtOnce)),
      stop_(stop),
      message_(std::move(message)) {
  for (const auto& [path, blob] : files_) lengths_[blob.name] = blob.bytes;
  thread_ = std::thread([this] { work(); });
}

FetchedShards::~FetchedShards() {
  {
    const Lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

uint64_t FetchedShards::length_of(const Piece& piece) const {
  return std::min(kPieceBytes, lengths_.at(piece.first) - piece.second * kPieceBytes);
}

void FetchedShards::expect(const fs::path& shard, uint64_t first, uint64_t count) {
  const Sha256& name = files_.at(shard).name;
  const Lock lock(mutex_);
  for (uint64_t number = first / kPieceBytes; number * kPieceBytes < first + count; ++number) {
    if (2 * kPieceBytes * expected_.size() >= most_bytes_) break;
    const Piece piece{name, number};
    if (!expected_.insert(piece).second) continue;
    const auto kept = kept_.find(piece);
    if (kept != kept_.end()) used_.splice(used_.end(), used_, kept->second.used);
    want(piece, false);
  }
  changed_.notify_all();
}

// Whoever waits for a piece that is only expected has it moved to the front.
void FetchedShards::want(const Piece& piece, bool now) {
  if (kept_.contains(piece)) return;
  if (!coming_.insert(piece).second) {
    if (!now || std::erase(wanted_, piece) == 0) return;  // it was asked for
  }
  if (now) {
    wanted_.push_front(piece);
  } else {
    wanted_.push_back(piece);
  }
}

// The part of a piece that lies in [first, first + out.size()) of its shard. False: it is not here.
bool FetchedShards::copy(const Piece& piece, uint64_t first, std::span<uint8_t> out) {
  const auto found = kept_.find(piece);
  if (found == kept_.end()) return false;
  used_.splice(used_.end(), used_, found->second.used);
  expected_.erase(piece);
  const uint64_t begins = piece.second * kPieceBytes;
  const uint64_t from = std::max(begins, first);
  const uint64_t to = std::min(begins + found->second.bytes.size(), first + out.size());
  std::copy_n(found->second.bytes.begin() + static_cast<std::ptrdiff_t>(from - begins), to - from,
              out.begin() + static_cast<std::ptrdiff_t>(from - first));
  return true;
}

// Pieces [first, end), in this order before all others.
void FetchedShards::want_now(const Sha256& shard, uint64_t first, uint64_t end) {
  for (uint64_t number = end; number > first; --number) want({shard, number - 1}, true);
  changed_.notify_all();
}

void FetchedShards::read(const fs::path& shard, uint64_t first, std::span<uint8_t> out) {
  const Sha256& name = files_.at(shard).name;
  const Lock lock(mutex_);
  const uint64_t end = first + out.size();
  const uint64_t last = (end + kPieceBytes - 1) / kPieceBytes;
  bool wants = true;
  for (uint64_t number = first / kPieceBytes; number < last; ++number) {
    const Piece piece{name, number};
    while (!copy(piece, first, out)) {
      if (!problem_.empty()) throw Error(problem_);
      if (stop_ != nullptr && *stop_) throw train::Aborted("it was interrupted");
      if (std::exchange(wants, false) || !coming_.contains(piece)) want_now(name, number, last);
      changed_.wait_for(mutex_, kLook);
    }
  }
}

std::vector<FetchedShards::Piece> FetchedShards::next_pieces() {
  std::vector<Piece> pieces;
  uint64_t bytes = 0;
  while (!wanted_.empty() && bytes + length_of(wanted_.front()) <= at_once_) {
    pieces.push_back(wanted_.front());
    wanted_.pop_front();
    bytes += length_of(pieces.back());
  }
  return pieces;
}

// In the order of the pieces; neighbours are one range.
std::vector<FileRange> FetchedShards::ranges_of(std::span<const Piece> pieces) const {
  std::vector<FileRange> ranges;
  for (const Piece& piece : pieces) {
    const uint64_t first = piece.second * kPieceBytes;
    const auto bytes = static_cast<uint32_t>(length_of(piece));
    const bool follows = !ranges.empty() && ranges.back().file == piece.first &&
                         ranges.back().first + ranges.back().bytes == first;
    if (follows) {
      ranges.back().bytes += bytes;
    } else {
      ranges.push_back({piece.first, first, bytes});
    }
  }
  return ranges;
}

void FetchedShards::take(std::span<const Piece> pieces, const Bytes& bytes) {
  received_ += bytes.size();
  auto from = bytes.begin();
  for (const Piece& piece : pieces) {
    const auto to = from + static_cast<std::ptrdiff_t>(length_of(piece));
    coming_.erase(piece);
    kept_.emplace(piece, Kept{{from, to}, used_.insert(used_.end(), piece)});
    kept_bytes_ += length_of(piece);
    from = to;
  }
  while (kept_bytes_ > most_bytes_) {
    kept_bytes_ -= length_of(used_.front());
    kept_.erase(used_.front());
    expected_.erase(used_.front());
    used_.pop_front();
  }
}

void FetchedShards::work() {
  const Lock lock(mutex_);
  bool waits = false;
  while (!ends_) {
    const std::vector<Piece> pieces = next_pieces();
    if (pieces.empty()) {
      changed_.wait(mutex_);
      continue;
    }
    const std::vector<FileRange> ranges = ranges_of(pieces);
    uint64_t bytes = 0;
    for (const FileRange& one : ranges) bytes += one.bytes;
    Result<Bytes> answer = Bytes();
    {
      const Unlock meanwhile(mutex_);
      answer = ask_(ranges, ends_);
    }
    if (answer && answer->size() == bytes) {
      take(pieces, *answer);
      at_once_ = std::min(2 * at_once_, kMostAtOnce);
      waits = false;
    } else {
      const bool late = !answer && answer.error().kind == FailureKind::kDeadline;
      wanted_.insert(wanted_.begin(), pieces.begin(), pieces.end());
      at_once_ = std::max(at_once_ / 2, kLeastAtOnce);
      if (!late) {
        problem_ = fmt::format(
            "the run's data cannot be fetched: {}",
            answer ? "the coordinator's answer is of another length" : answer.error().message);
        changed_.notify_all();
        return;
      }
      if (!std::exchange(waits, true)) message_("waits for the coordinator's data");
      changed_.wait_for(mutex_, kPause, [this]() REQUIRES(mutex_) { return ends_.load(); });
    }
    changed_.notify_all();
  }
}

}  // namespace thinwire::hosts

// The run's tokens as a member needs them, with data.fetch = "needed": rows are fetched from the
// coordinator ahead of the steps that train on them, and the last ones are kept in memory.
// docs/hosts.md, "Data as it is needed".
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/secrets.h"
#include "thinwire/base/signature.h"
#include "thinwire/data/shard.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/run_data.h"
#include "thinwire/hosts/run_description.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::hosts {

class MemberConnection;

// A part of a file of the run, by the name of the blob that the whole file is.
struct FileRange {
  Sha256 file;
  uint64_t first = 0;
  uint32_t bytes = 0;
  bool operator==(const FileRange&) const = default;
};

// What a request for parts of files says, all of which is answered at once: at most kMostAtOnce
// bytes in at most kMostRanges parts, none of them empty; and the key for which the answer is
// sealed, since observers of the run see all answers. Decoding is total: kCorruptPayload for
// anything else.
inline constexpr uint64_t kMostAtOnce = 128 << 10;
inline constexpr uint64_t kMostRanges = kMostAtOnce / data::kShardHeaderBytes;
struct PartsRequest {
  AgreementKey key{};
  std::vector<FileRange> ranges;
};
Bytes encode_parts(const AgreementKey& key, std::span<const FileRange> ranges);
Result<PartsRequest> decode_parts(std::span<const uint8_t> bytes);

// The bytes of these parts one after the other, for who asks. kRefused if there is no such file, or
// no such part in it, or if the file is not as long as it was.
Result<Bytes> read_ranges(const std::map<Sha256, FilePart>& files,
                          std::span<const FileRange> ranges);

// Thread-safe. What is read has the length that was asked for, and comes from the coordinator,
// which signs its answers; the whole of a shard, and so its checksum, is never seen.
class FetchedShards final : public data::ShardBytes {
 public:
  // Asks for parts; their bytes one after the other. kDeadline: it is asked again.
  // `ends`: becomes true once nobody waits for the answer any more.
  using Ask = std::function<Result<Bytes>(std::span<const FileRange> ranges,
                                          const std::atomic<bool>& ends)>;

  // `files`: the shards by their paths. `ask` is called by one thread of its own. `stop`,
  // which may be null: nobody waits any longer. `most_bytes`: are kept.
  FetchedShards(std::map<fs::path, transport::BlobId> files, Ask ask, uint64_t most_bytes,
                const std::atomic<bool>* stop, events::MessageSink message);
  ~FetchedShards() override;

  // Waits for the coordinator as long as it takes. Throws Error if it refuses, and train::Aborted
  // once it is told to stop.
  void read(const fs::path& shard, uint64_t first, std::span<uint8_t> out) override;
  // Forgets this where more is expected than half of what is kept.
  void expect(const fs::path& shard, uint64_t first, uint64_t count) override;
  uint64_t size(const fs::path& shard) const override { return files_.at(shard).bytes; }

  // What has been received so far.
  uint64_t received_bytes() const { return received_; }

 private:
  // Pieces of the same length, by which shards are fetched and kept.
  static constexpr uint64_t kPieceBytes = 1 << 10;
  static constexpr uint64_t kLeastAtOnce = 8 << 10;
  using Piece = std::pair<Sha256, uint64_t>;  // of which shard, and its number there

  struct Kept {
    Bytes bytes;
    std::list<Piece>::iterator used;  // in used_
  };

  void want(const Piece& piece, bool now) REQUIRES(mutex_);
  void want_now(const Sha256& shard, uint64_t first, uint64_t end) REQUIRES(mutex_);
  bool copy(const Piece& piece, uint64_t first, std::span<uint8_t> out) REQUIRES(mutex_);
  std::vector<Piece> next_pieces() REQUIRES(mutex_);
  std::vector<FileRange> ranges_of(std::span<const Piece> pieces) const;
  void take(std::span<const Piece> pieces, const Bytes& bytes) REQUIRES(mutex_);
  uint64_t length_of(const Piece& piece) const;
  void work();

  const std::map<fs::path, transport::BlobId> files_;
  std::map<Sha256, uint64_t> lengths_;  // of the shards
  const Ask ask_;
  const uint64_t most_bytes_;
  const std::atomic<bool>* const stop_;
  const events::MessageSink message_;
  std::atomic<uint64_t> received_ = 0;
  mutable Mutex mutex_;
  Condition changed_;
  std::map<Piece, Kept> kept_ GUARDED_BY(mutex_);
  std::list<Piece> used_ GUARDED_BY(mutex_);  // of kept_, the last used at the end
  uint64_t kept_bytes_ GUARDED_BY(mutex_) = 0;
  std::deque<Piece> wanted_ GUARDED_BY(mutex_);  // in order; those that somebody waits for first
  std::set<Piece> coming_ GUARDED_BY(mutex_);    // of wanted_, and those that were asked for
  std::set<Piece> expected_ GUARDED_BY(mutex_);  // and not read since, nor dropped
  uint64_t at_once_ GUARDED_BY(mutex_) = kMostAtOnce;  // bytes; fewer where answers came too late
  std::string problem_ GUARDED_BY(mutex_);
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

// What a member has before the first row: a folder with the headers of the run's shards, and what
// fetches the rest.

struct NeededData {
  fs::path folder;    // for vocabulary, record and headers
  PublicKey founder;  // the coordinator that is asked for rows
  uint64_t cache_bytes = 0;
  const std::atomic<bool>* stop = nullptr;  // set from outside: wait no longer; may be null
};

// Makes the folder one with what is received before the first row, and returns what fetches rows
// into memory; `connection` must outlive it. `reception`: receives the vocabulary. Throws Error if
// the coordinator does not give them, or gives others than it describes.
std::unique_ptr<FetchedShards> fetch_as_needed(MemberConnection& connection, const NeededData& data,
                                               const RunDescription& description,
                                               const Reception& reception,
                                               const events::MessageSink& message);

}  // namespace thinwire::hosts

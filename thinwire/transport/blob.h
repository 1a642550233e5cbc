// Blobs: bytes of any length under a name that only they have, so that whoever asks for a name can
// check what it gets, from whomever it comes. docs/formats.md, "Blobs".
//
// Up to kMaxMessageBytes, a blob is one chunk and its name is its SHA-256. A longer one is cut into
// chunks of kMaxMessageBytes, the last one of what is left; the SHA-256 of these, one behind the
// other, are again a blob, and its name is the long one's too. A name and a length together say
// therefore what every chunk must hash to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/sha256.h"

namespace thinwire::transport {

// The most a single message carries: a chunk, a statement, a record.
inline constexpr size_t kMaxMessageBytes = 256 << 10;

struct BlobId {
  Sha256 name;
  uint64_t bytes = 0;
  auto operator<=>(const BlobId&) const = default;
};

struct Chunk {
  Sha256 name;
  std::span<const uint8_t> bytes;
};

// A blob in chunks, the names' own among them, the topmost last.
class BlobChunks {
 public:
  explicit BlobChunks(std::shared_ptr<const Bytes> blob);

  const BlobId& id() const { return id_; }
  // They are views into this object's memory.
  const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  void cut(std::span<const uint8_t> bytes);

  std::shared_ptr<const Bytes> blob_;
  std::vector<std::unique_ptr<Bytes>> names_;  // from the bottom up
  std::vector<Chunk> chunks_;
  BlobId id_;
};

BlobId blob_id(std::span<const uint8_t> bytes);

// A blob being put together from chunks in any order, each checked when it comes. Not thread-safe.
class BlobAssembly {
 public:
  // Allocates as chunks need it: id.bytes once the names above are known.
  explicit BlobAssembly(const BlobId& id);

  // A chunk that is missing and was not given out before; nothing while others must come first.
  std::optional<Sha256> next();
  // The chunk of this name is to be given out again.
  void retry(const Sha256& name);
  // False, and nothing changed, unless the bytes hash to a name that is missing.
  bool add(const Sha256& name, std::span<const uint8_t> chunk);
  bool complete() const { return levels_.empty(); }
  // Whole and checked; once complete().
  Bytes take() { return std::move(bytes_); }
  // All chunks missing may be given out again.
  void restart();

 private:
  void open_level();

  std::vector<uint64_t> levels_;           // bytes of levels not complete, the blob's own first
  Bytes bytes_;                            // of the last of levels_
  std::vector<Sha256> names_;              // of its chunks
  std::multimap<Sha256, size_t> missing_;  // their places; the same chunk may stand at several
  std::vector<Sha256> to_give_;            // from the back
};

}  // namespace thinwire::transport

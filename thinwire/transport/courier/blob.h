// Blobs: bytes of any length under a name derived from their content, so that the receiver can
// check them, no matter who sent them. See docs/formats.md, "Blobs".
//
// A blob of up to kMaxMessageBytes is one chunk, and its name is its SHA-256. A longer blob is cut
// into chunks of kMaxMessageBytes; the last chunk takes what is left. The SHA-256 hashes of the
// chunks, one after the other, form another blob, and the name of that blob is also the name of the
// long one. A name and a length together therefore determine what every chunk must hash to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"

namespace thinwire::transport {

// The largest body of a message: a chunk, a statement, a record.
inline constexpr size_t kMaxMessageBytes = 256 << 10;

struct BlobId {
  Sha256 name;
  uint64_t bytes = 0;
  auto operator<=>(const BlobId&) const = default;
};

// Where a store keeps a chunk: under the blob that it belongs to. So blobs share no chunks, and a
// blob is deleted without regard to others.
struct ChunkKey {
  Sha256 blob;
  Sha256 chunk;
  auto operator<=>(const ChunkKey&) const = default;
};
// The names of the blob and of the chunk in hexadecimal digits; for the chunk whose name is also
// the blob's, as of a blob of one chunk, "0".
std::string print_key(const ChunkKey& key, char separator);
std::optional<ChunkKey> parse_key(std::string_view text, char separator);

struct Chunk {
  ChunkKey key;
  std::span<const uint8_t> bytes;
};

// What a store has of a blob.
struct StoredBlob {
  Sha256 name;
  uint64_t chunks = 0;
  bool operator==(const StoredBlob&) const = default;
};

// All chunks of a blob, including those that hold lists of chunk names; the topmost is last.
class BlobChunks {
 public:
  explicit BlobChunks(std::shared_ptr<const Bytes> blob);

  const BlobId& id() const { return id_; }
  // The chunks are views into memory that this object holds.
  const std::vector<Chunk>& chunks() const { return chunks_; }

 private:
  void cut(std::span<const uint8_t> bytes);

  std::shared_ptr<const Bytes> blob_;
  std::vector<std::unique_ptr<Bytes>> names_;  // lists of chunk names, from the bottom up
  std::vector<Chunk> chunks_;
  BlobId id_;
};

BlobId blob_id(std::span<const uint8_t> bytes);

// The blob that holds the names of a blob's chunks, one after the other; nothing if it is one chunk
// itself.
std::optional<BlobId> list_of(const BlobId& id);
// The names in the content of a list_of.
std::vector<Sha256> listed_names(std::span<const uint8_t> list);
// How many chunks a blob of so many bytes has, including those that hold lists of chunk names.
uint64_t chunks_in(uint64_t bytes);

// Assembles a blob from chunks in any order and checks each chunk on arrival. Not thread-safe.
class BlobAssembly {
 public:
  // Allocates memory only when chunks need it: id.bytes bytes once all lists of names are complete.
  explicit BlobAssembly(const BlobId& id);

  // Returns the name of a missing chunk that was not given out before, or nothing while other
  // chunks must arrive first.
  std::optional<Sha256> next();
  // Lets next() give out the chunk of this name again.
  void retry(const Sha256& name);
  // Returns false and changes nothing unless the chunk is missing, has the right length and
  // hashes to its name.
  bool add(const Sha256& name, std::span<const uint8_t> chunk);
  bool complete() const { return levels_.empty(); }
  // The whole, checked blob. Call it only once complete() is true.
  Bytes take() { return std::move(bytes_); }
  // Lets next() give out all missing chunks again.
  void restart();

 private:
  void open_level();

  std::vector<uint64_t> levels_;           // bytes of each incomplete level, the blob itself first
  Bytes bytes_;                            // content of the last level
  std::vector<Sha256> names_;              // of the last level's chunks
  std::multimap<Sha256, size_t> missing_;  // places of missing chunks; a chunk may have several
  std::vector<Sha256> to_give_;            // given out from the back
};

}  // namespace thinwire::transport

// Shards: files of tokens, read through memory maps. Layout, little-endian (docs/formats.md):
//   magic "TWSHARD1" · u32 version 1 · u32 bytes a token (2 or 4) · u64 tokens · u64 documents ·
//   u64 vocabulary digest · u64 hash of the token bytes · u64 flags (0) · u64 hash of the header so
//   far · tokens
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/file.h"

namespace thinwire::data {

struct ShardHeader {
  uint32_t token_bytes = 2;
  uint64_t tokens = 0;
  uint64_t documents = 0;
  uint64_t vocabulary_digest = 0;
  uint64_t payload_hash = 0;
};

inline constexpr uint64_t kShardHeaderBytes = 64;

// Writes one shard, document by document. Nothing appears under the final name before commit().
class ShardWriter {
 public:
  // Tokens take 2 bytes when vocabulary_size <= 65536, otherwise 4.
  ShardWriter(const fs::path& path, uint64_t vocabulary_digest, int64_t vocabulary_size);

  // Throws Error when a token is outside the vocabulary.
  void add_document(std::span<const int32_t> tokens);
  uint64_t tokens() const { return header_.tokens; }
  uint64_t documents() const { return header_.documents; }
  void commit();
  // After commit(): XXH3 of the tokens' bytes.
  uint64_t payload_hash() const { return header_.payload_hash; }

 private:
  AtomicFile file_;
  ShardHeader header_;
  int64_t vocabulary_size_;
  StreamHash hash_;
  Bytes buffer_;
};

// One shard, mapped. The constructor checks magic, version, header hash and file size; verify()
// also checks every token byte. Errors name the file and say whether it is foreign, truncated or
// altered.
class ShardReader {
 public:
  explicit ShardReader(const fs::path& path);

  const ShardHeader& header() const { return header_; }
  const fs::path& path() const { return path_; }
  uint64_t tokens() const { return header_.tokens; }
  void verify() const;
  // Tokens [first, first + out.size()); throws Error if that reaches past the end.
  void read(uint64_t first, std::span<int32_t> out) const;

 private:
  fs::path path_;
  MappedFile file_;
  ShardHeader header_;
};

// All shards of a folder (00000.tws, 00001.tws, ...) as one sequence of tokens. Reading is
// thread-safe.
class TokenSet {
 public:
  // Throws Error if there is no shard, or if a shard is missing in the sequence of numbers,
  // damaged, or made with another vocabulary. verify: check the tokens' hash too.
  static TokenSet open(const fs::path& folder, uint64_t vocabulary_digest, bool verify);

  uint64_t tokens() const { return starts_.back(); }
  uint64_t documents() const;
  // Equal for equal tokens in equal shards; computed from the checksums in the headers.
  uint64_t digest() const;
  const std::vector<ShardReader>& shards() const { return shards_; }
  const fs::path& folder() const { return folder_; }
  void read(uint64_t first, std::span<int32_t> out) const;

 private:
  fs::path folder_;
  std::vector<ShardReader> shards_;
  std::vector<uint64_t> starts_{0};  // first token of each shard, then the total
};

// "00042.tws"
std::string shard_name(uint64_t number);

}  // namespace thinwire::data

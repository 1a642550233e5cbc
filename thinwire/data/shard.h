// Shards: files of tokens, read through memory maps. Layout, little-endian (docs/formats.md):
//   magic "TWSHARD1" · u32 version · u32 bytes a token (2 or 4) · u64 tokens · u64 documents ·
//   u64 vocabulary digest · u64 hash of what follows the header · u64 flags · u64 hash of the
//   header so far · tokens
// Version 1, flags 0: text. Version 2, flags 1: records, of which only some tokens are learnt;
// after the tokens come a bit for each token and the length of each record (u32). Version 3, flags
// 3: the same, and every two records are a pair, the chosen answer and the rejected one. Version 4,
// flags 5: records that are texts with their class as the last token, the only one that is learnt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/file.h"
#include "thinwire/config/sections.h"

namespace thinwire::data {

// What a shard holds: text; records (prompts with answers, and chats); records in pairs; or texts
// with a class or with a number.
enum class ShardKind : uint8_t { kText, kRecords, kPairs, kClasses, kNumbers };

// The kind of shard that such lines are prepared as.
constexpr ShardKind shard_kind(config::RecordKind records) {
  switch (records) {
    case config::RecordKind::kText:
      return ShardKind::kText;
    case config::RecordKind::kPrompts:
    case config::RecordKind::kChats:
      return ShardKind::kRecords;
    case config::RecordKind::kPreferences:
      return ShardKind::kPairs;
    case config::RecordKind::kLabels:
      return ShardKind::kClasses;
    case config::RecordKind::kNumbers:
      return ShardKind::kNumbers;
  }
  return ShardKind::kText;
}

struct ShardHeader {
  uint32_t token_bytes = 2;
  uint64_t tokens = 0;
  uint64_t documents = 0;
  uint64_t vocabulary_digest = 0;
  uint64_t payload_hash = 0;
  ShardKind kind = ShardKind::kText;  // kPairs: `documents` counts both records of a pair

  uint32_t version() const { return 1 + static_cast<uint32_t>(kind); }
  // Whether a mask and the lengths of the records follow the tokens.
  bool has_records() const { return kind != ShardKind::kText; }
  uint64_t mask_bytes() const { return has_records() ? tokens / 8 + (tokens % 8 == 0 ? 0 : 1) : 0; }
};

inline constexpr uint64_t kShardHeaderBytes = 64;

// Writes one shard, document by document. Nothing appears under the final name before commit().
class ShardWriter {
 public:
  // Tokens take 2 bytes when vocabulary_size <= 65536, otherwise 4.
  ShardWriter(const fs::path& path, uint64_t vocabulary_digest, int64_t vocabulary_size);

  // Throws Error when a token is outside the vocabulary.
  void add_document(std::span<const int32_t> tokens);
  // A record: learnt[i] says whether token i counts in the loss. A shard holds either documents or
  // records.
  void add_record(std::span<const int32_t> tokens, const std::vector<bool>& learnt);
  // Two records that belong together, of which the first has `chosen` of the tokens. A shard holds
  // either single records or pairs.
  void add_pair(std::span<const int32_t> tokens, const std::vector<bool>& learnt, size_t chosen);
  // A text and, as its last `target` tokens, its class or number (target_tokens()). A shard holds
  // nothing else then.
  void add_labelled(std::span<const int32_t> tokens, size_t target);
  uint64_t tokens() const { return header_.tokens; }
  uint64_t documents() const { return header_.documents; }
  void commit();
  // After commit(): XXH3 of the bytes after the header.
  uint64_t payload_hash() const { return header_.payload_hash; }

 private:
  AtomicFile file_;
  ShardHeader header_;
  int64_t vocabulary_size_;
  StreamHash hash_;
  Bytes buffer_;
  std::vector<bool> learnt_;       // of records
  std::vector<uint32_t> lengths_;  // likewise
};

// Where the bytes of shards are that this machine does not have: there are files with their names,
// of which only the header is there. Thread-safe.
class ShardBytes {
 public:
  virtual ~ShardBytes() = default;
  // The bytes of the shard's file from `first` on. Waits for them. Throws Error.
  virtual void read(const fs::path& shard, uint64_t first, std::span<uint8_t> out) = 0;
  // They are going to be read.
  virtual void expect(const fs::path& shard, uint64_t first, uint64_t count) = 0;
  // Of the shard's file.
  virtual uint64_t size(const fs::path& shard) const = 0;
};

// One shard, mapped. The constructor checks magic, version, header hash and file size, and reads
// the mask of records that are elsewhere; verify() also checks every token byte. Errors name the
// file and say whether it is not a shard, truncated or altered.
class ShardReader {
 public:
  // `elsewhere`: has what follows the header, and outlives this; null: the file does.
  explicit ShardReader(const fs::path& path, ShardBytes* elsewhere = nullptr);

  const ShardHeader& header() const { return header_; }
  const fs::path& path() const { return path_; }
  uint64_t tokens() const { return header_.tokens; }
  void verify() const;
  // Tokens [first, first + out.size()); throws Error if that reaches past the end.
  void read(uint64_t first, std::span<int32_t> out) const;
  // Tokens that are going to be read.
  void expect(uint64_t first, uint64_t count) const;
  // Only for records: whether a token counts in the loss, and the number of tokens of each record.
  // lengths() throws Error unless they add up to tokens().
  bool learnt(uint64_t token) const;
  std::vector<uint32_t> lengths() const;

 private:
  // `buffer` holds them if they are elsewhere.
  std::span<const uint8_t> bytes(uint64_t first, uint64_t count, Bytes& buffer) const;

  fs::path path_;
  MappedFile file_;
  ShardHeader header_;
  ShardBytes* elsewhere_;
  Bytes mask_;  // of records that are elsewhere
};

// All shards of a folder (00000.tws, 00001.tws, ...) as one sequence of tokens. Reading is
// thread-safe.
class TokenSet {
 public:
  // Throws Error if there is no shard, or if a shard is missing in the sequence of numbers,
  // damaged, made with another vocabulary, or if some hold records (or pairs) and some do not.
  // verify: check the tokens' hash too. `elsewhere`: as ShardReader.
  static TokenSet open(const fs::path& folder, uint64_t vocabulary_digest, bool verify,
                       ShardBytes* elsewhere = nullptr);

  uint64_t tokens() const { return starts_.back(); }
  uint64_t documents() const;
  // Equal for equal tokens in equal shards; computed from the checksums in the headers.
  uint64_t digest() const;
  const std::vector<ShardReader>& shards() const { return shards_; }
  const fs::path& folder() const { return folder_; }
  // What the shards hold; unless it is text, whether token `token` of the set counts in the loss.
  ShardKind kind() const {
    return shards_.empty() ? ShardKind::kText : shards_.front().header().kind;
  }
  bool learnt(uint64_t token) const;
  void read(uint64_t first, std::span<int32_t> out) const;
  // Whether the tokens are elsewhere; those that are going to be read.
  bool elsewhere() const { return elsewhere_; }
  void expect(uint64_t first, uint64_t count) const;

 private:
  fs::path folder_;
  bool elsewhere_ = false;
  size_t shard_of(uint64_t token) const;

  std::vector<ShardReader> shards_;
  std::vector<uint64_t> starts_{0};  // first token of each shard, then the total
};

// "00042.tws"
std::string shard_name(uint64_t number);

// The token sets of a prepared folder, checked against its record.

// When sets are opened, tokens are hashed only if the folder has at most this many bytes of them;
// beyond that it would take minutes at every start. `thinwire inspect` hashes any shard's tokens.
inline constexpr uint64_t kHashedAtOnce = uint64_t{4} << 30;

// Every set that prepare.json lists, by name; the training set is "train". Throws Error if a shard
// is missing, is not the one that was prepared (by count and by the checksum of its tokens in its
// header), is damaged, belongs to another vocabulary, or exists without being listed. `elsewhere`:
// as ShardReader; nothing is hashed then.
std::map<std::string, TokenSet> open_sets(const fs::path& folder, uint64_t vocabulary_digest,
                                          uint64_t hashed_at_once = kHashedAtOnce,
                                          ShardBytes* elsewhere = nullptr);

}  // namespace thinwire::data

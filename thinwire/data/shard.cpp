#include "thinwire/data/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "thinwire/base/error.h"
#include "thinwire/base/number_tokens.h"

namespace thinwire::data {
namespace {

constexpr std::string_view kMagic = "TWSHARD1";
// What a shard of each kind holds, and its flags.
constexpr std::array<std::string_view, 5> kContents = {"text", "records", "pairs",
                                                       "texts with a class", "texts with a number"};
constexpr std::array<uint64_t, 5> kFlags = {0, 1, 1 | 2, 1 | 4, 1 | 4 | 8};
constexpr uint64_t kHashedHeaderBytes = kShardHeaderBytes - sizeof(uint64_t);

uint64_t flags_of(const ShardHeader& header) { return kFlags[static_cast<size_t>(header.kind)]; }

Bytes encode_header(const ShardHeader& header) {
  Bytes bytes;
  bytes.reserve(kShardHeaderBytes);
  ByteWriter out(bytes);
  out.put_bytes(as_bytes(kMagic));
  out.put(header.version());
  out.put(header.token_bytes);
  out.put(header.tokens);
  out.put(header.documents);
  out.put(header.vocabulary_digest);
  out.put(header.payload_hash);
  out.put(flags_of(header));
  out.put(hash_bytes(bytes));
  return bytes;
}

[[noreturn]] void refuse(const fs::path& path, std::string_view why) {
  throw Error(fmt::format("{} {}", path.string(), why));
}

ShardHeader decode_header(const fs::path& path, std::span<const uint8_t> bytes) {
  const auto magic = bytes.first(std::min(bytes.size(), kMagic.size()));
  if (!std::ranges::equal(magic, as_bytes(kMagic).first(magic.size())) || magic.empty()) {
    refuse(path, "is not a Thinwire shard: it does not begin like one");
  }
  if (bytes.size() < kShardHeaderBytes) {
    refuse(path, fmt::format("is truncated: {} bytes, fewer than a shard's header", bytes.size()));
  }
  ByteReader in(bytes.subspan(kMagic.size()));
  const auto version = in.get<uint32_t>();
  if (version < 1 || version > kFlags.size()) {
    refuse(path,
           fmt::format("is not a shard that this program reads: its version is {}, not {} to {}",
                       version, 1, kFlags.size()));
  }
  ShardHeader header;
  header.token_bytes = in.get<uint32_t>();
  header.tokens = in.get<uint64_t>();
  header.documents = in.get<uint64_t>();
  header.vocabulary_digest = in.get<uint64_t>();
  header.payload_hash = in.get<uint64_t>();
  const auto flags = in.get<uint64_t>();
  if (in.get<uint64_t>() != hash_bytes(bytes.first(kHashedHeaderBytes))) {
    refuse(path, "is altered: its header does not match the header's hash");
  }
  header.kind = static_cast<ShardKind>(version - 1);
  if ((header.token_bytes != 2 && header.token_bytes != 4) || flags != flags_of(header)) {
    refuse(path, fmt::format("is not a valid shard: {} bytes a token, flags {:#x}",
                             header.token_bytes, flags));
  }
  if (header.kind == ShardKind::kPairs && header.documents % 2 != 0) {
    refuse(path, fmt::format("is not a valid shard: {} records in pairs", header.documents));
  }
  return header;
}

void check_size(const fs::path& path, const ShardHeader& header, uint64_t size) {
  const uint64_t payload = size - kShardHeaderBytes;
  // Compared by division, because the product could overflow with a malicious header.
  if (payload / header.token_bytes < header.tokens) {
    refuse(path,
           fmt::format("is truncated: its header counts {} tokens of {} bytes, the file holds "
                       "{} bytes of them",
                       header.tokens, header.token_bytes, payload));
  }
  const uint64_t after = payload - header.tokens * header.token_bytes;
  if (!header.has_records() && after != 0) {
    refuse(path, fmt::format("is altered: {} bytes follow its last token", after));
  }
  const uint64_t mask = header.mask_bytes();
  if (header.has_records() && (after < mask || (after - mask) % sizeof(uint32_t) != 0 ||
                               (after - mask) / sizeof(uint32_t) != header.documents)) {
    refuse(path, fmt::format("is altered: {} bytes follow its last token, where the mask of {} "
                             "tokens and the lengths of {} records should be",
                             after, header.tokens, header.documents));
  }
}

template <typename Wire>
void widen(std::span<const uint8_t> bytes, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Wire token;
    std::memcpy(&token, bytes.data() + i * sizeof(Wire), sizeof(Wire));
    out[i] = static_cast<int32_t>(token);
  }
}

}  // namespace

ShardWriter::ShardWriter(const fs::path& path, uint64_t vocabulary_digest, int64_t vocabulary_size)
    : file_(path), vocabulary_size_(vocabulary_size) {
  header_.token_bytes = vocabulary_size <= 65536 ? 2 : 4;
  header_.vocabulary_digest = vocabulary_digest;
  file_.write(encode_header(header_));  // reserves its place; the counts are known at the end
}

void ShardWriter::add_document(std::span<const int32_t> tokens) {
  buffer_.clear();
  ByteWriter out(buffer_);
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary_size_) {
      throw Error(fmt::format("token {} is outside the vocabulary of {}", token, vocabulary_size_));
    }
    if (header_.token_bytes == 2) {
      out.put(static_cast<uint16_t>(token));
    } else {
      out.put(static_cast<uint32_t>(token));
    }
  }
  hash_.update(buffer_);
  file_.write(buffer_);
  header_.tokens += tokens.size();
  ++header_.documents;
}

void ShardWriter::add_record(std::span<const int32_t> tokens, const std::vector<bool>& learnt) {
  if (!header_.has_records()) header_.kind = ShardKind::kRecords;
  add_document(tokens);
  learnt_.insert(learnt_.end(), learnt.begin(), learnt.end());
  lengths_.push_back(static_cast<uint32_t>(tokens.size()));
}

void ShardWriter::add_pair(std::span<const int32_t> tokens, const std::vector<bool>& learnt,
                           size_t chosen) {
  header_.kind = ShardKind::kPairs;
  const auto border = learnt.begin() + static_cast<std::ptrdiff_t>(chosen);
  add_record(tokens.first(chosen), {learnt.begin(), border});
  add_record(tokens.subspan(chosen), {border, learnt.end()});
}

void ShardWriter::add_labelled(std::span<const int32_t> tokens, size_t target) {
  const bool number = target == kNumberTokens;
  header_.kind = number ? ShardKind::kNumbers : ShardKind::kClasses;
  if (number && vocabulary_size_ < 256) {
    throw Error(
        fmt::format("a number takes the tokens 0 to 255, one for each byte; the vocabulary has {}",
                    vocabulary_size_));
  }
  std::vector<bool> learnt(tokens.size(), false);
  learnt[tokens.size() - target] = true;
  add_record(tokens, learnt);
}

void ShardWriter::commit() {
  if (header_.has_records()) {
    Bytes behind(header_.mask_bytes());
    for (size_t i = 0; i < learnt_.size(); ++i) {
      if (learnt_[i]) behind[i / 8] |= static_cast<uint8_t>(1U << (i % 8));
    }
    ByteWriter out(behind);
    out.put_bytes(as_bytes(std::span<const uint32_t>(lengths_)));
    hash_.update(behind);
    file_.write(behind);
  }
  header_.payload_hash = hash_.value();
  file_.write_at(0, encode_header(header_));
  file_.commit();
}

ShardReader::ShardReader(const fs::path& path, ShardBytes* elsewhere)
    : path_(path), file_(path), elsewhere_(elsewhere) {
  header_ = decode_header(path, file_.bytes());
  check_size(path, header_, elsewhere_ == nullptr ? file_.bytes().size() : elsewhere_->size(path));
  if (elsewhere_ == nullptr || !header_.has_records()) return;
  mask_.resize(header_.mask_bytes());
  elsewhere_->read(path, kShardHeaderBytes + header_.tokens * header_.token_bytes, mask_);
}

std::span<const uint8_t> ShardReader::bytes(uint64_t first, uint64_t count, Bytes& buffer) const {
  if (elsewhere_ == nullptr) return file_.bytes().subspan(first, count);
  buffer.resize(count);
  elsewhere_->read(path_, first, buffer);
  return buffer;
}

void ShardReader::expect(uint64_t first, uint64_t count) const {
  if (elsewhere_ == nullptr) return;
  elsewhere_->expect(path_, kShardHeaderBytes + first * header_.token_bytes,
                     count * header_.token_bytes);
}

void ShardReader::verify() const {
  if (hash_bytes(file_.bytes().subspan(kShardHeaderBytes)) != header_.payload_hash) {
    refuse(path_, "is altered: its tokens do not match the checksum in its header");
  }
}

void ShardReader::read(uint64_t first, std::span<int32_t> out) const {
  if (first > header_.tokens || out.size() > header_.tokens - first) {
    refuse(path_, fmt::format("holds {} tokens; {} from {} on were asked for", header_.tokens,
                              out.size(), first));
  }
  Bytes buffer;
  const auto tokens = bytes(kShardHeaderBytes + first * header_.token_bytes,
                            out.size() * header_.token_bytes, buffer);
  if (header_.token_bytes == 2) {
    widen<uint16_t>(tokens, out);
  } else {
    widen<uint32_t>(tokens, out);
  }
}

bool ShardReader::learnt(uint64_t token) const {
  const uint64_t mask = kShardHeaderBytes + header_.tokens * header_.token_bytes;
  const uint8_t bits = elsewhere_ == nullptr ? file_.bytes()[mask + token / 8] : mask_[token / 8];
  return ((bits >> (token % 8)) & 1U) != 0;
}

std::vector<uint32_t> ShardReader::lengths() const {
  Bytes buffer;
  const auto coded =
      bytes(kShardHeaderBytes + header_.tokens * header_.token_bytes + header_.mask_bytes(),
            header_.documents * sizeof(uint32_t), buffer);
  std::vector<uint32_t> lengths(header_.documents);
  std::memcpy(lengths.data(), coded.data(), coded.size());
  uint64_t sum = 0;
  for (const uint32_t length : lengths) sum += length;
  if (sum != header_.tokens) {
    refuse(path_, fmt::format("is altered: its records have {} tokens in all, its header counts {}",
                              sum, header_.tokens));
  }
  return lengths;
}

TokenSet TokenSet::open(const fs::path& folder, uint64_t vocabulary_digest, bool verify,
                        ShardBytes* elsewhere) {
  TokenSet set;
  set.folder_ = folder;
  set.elsewhere_ = elsewhere != nullptr;
  for (uint64_t number = 0; fs::exists(folder / shard_name(number)); ++number) {
    const ShardReader& shard = set.shards_.emplace_back(folder / shard_name(number), elsewhere);
    if (shard.header().vocabulary_digest != vocabulary_digest) {
      refuse(
          shard.path(),
          fmt::format("belongs to another vocabulary: it was made with {}, the vocabulary here is "
                      "{}; run `thinwire prepare` again",
                      to_hex(shard.header().vocabulary_digest), to_hex(vocabulary_digest)));
    }
    const ShardHeader& first = set.shards_.front().header();
    if (shard.header().kind != first.kind) {
      const ShardKind kind = std::max(shard.header().kind, first.kind);
      refuse(shard.path(), fmt::format("does not match its folder: some shards there hold {} and "
                                       "some do not",
                                       kContents[static_cast<size_t>(kind)]));
    }
    if (verify) shard.verify();
    set.starts_.push_back(set.starts_.back() + shard.tokens());
  }
  const auto shards = static_cast<uint64_t>(std::ranges::count_if(
      fs::is_directory(folder) ? fs::directory_iterator(folder) : fs::directory_iterator(),
      [](const auto& entry) { return entry.path().extension() == ".tws"; }));
  if (set.shards_.empty() && shards == 0) {
    refuse(folder, "holds no shards; run `thinwire prepare` first");
  }
  if (set.shards_.size() != shards) {
    refuse(folder / shard_name(set.shards_.size()), "is missing, although later shards exist");
  }
  return set;
}

uint64_t TokenSet::documents() const {
  uint64_t documents = 0;
  for (const ShardReader& shard : shards_) documents += shard.header().documents;
  return documents;
}

uint64_t TokenSet::digest() const {
  std::vector<uint64_t> parts;
  for (const ShardReader& shard : shards_) {
    parts.push_back(shard.tokens());
    parts.push_back(shard.header().payload_hash);
  }
  return hash_bytes(as_bytes(std::span<const uint64_t>(parts)));
}

void TokenSet::read(uint64_t first, std::span<int32_t> out) const {
  if (first > tokens() || out.size() > tokens() - first) {
    refuse(folder_, fmt::format("holds {} tokens; {} from {} on were asked for", tokens(),
                                out.size(), first));
  }
  size_t shard = shard_of(first);
  while (!out.empty()) {
    const uint64_t offset = first - starts_[shard];
    const size_t count = std::min<uint64_t>(out.size(), shards_[shard].tokens() - offset);
    shards_[shard].read(offset, out.first(count));
    out = out.subspan(count);
    first += count;
    ++shard;
  }
}

void TokenSet::expect(uint64_t first, uint64_t count) const {
  const uint64_t end = std::min(first + count, tokens());
  for (size_t shard = shard_of(first); first < end; ++shard) {
    const uint64_t offset = first - starts_[shard];
    const uint64_t here = std::min(end - first, shards_[shard].tokens() - offset);
    shards_[shard].expect(offset, here);
    first += here;
  }
}

size_t TokenSet::shard_of(uint64_t token) const {
  return static_cast<size_t>(std::ranges::upper_bound(starts_, token) - starts_.begin()) - 1;
}

bool TokenSet::learnt(uint64_t token) const {
  const size_t shard = shard_of(token);
  return shards_[shard].learnt(token - starts_[shard]);
}

std::string shard_name(uint64_t number) { return fmt::format("{:05d}.tws", number); }

}  // namespace thinwire::data

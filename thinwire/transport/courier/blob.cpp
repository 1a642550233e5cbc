#include "thinwire/transport/courier/blob.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace thinwire::transport {
namespace {

constexpr uint64_t kNameBytes = sizeof(Sha256::bytes);
const std::string kSameName = "0";

// An empty blob is one empty chunk.
constexpr uint64_t chunks_of(uint64_t bytes) {
  return bytes == 0 ? 1 : (bytes - 1) / kMaxMessageBytes + 1;
}

constexpr size_t chunk_bytes(uint64_t bytes, size_t place) {
  return std::min<uint64_t>(kMaxMessageBytes, bytes - place * kMaxMessageBytes);
}

}  // namespace

std::string print_key(const ChunkKey& key, char separator) {
  return to_hex(key.blob) + separator + (key.chunk == key.blob ? kSameName : to_hex(key.chunk));
}

std::optional<ChunkKey> parse_key(std::string_view text, char separator) {
  const size_t end = text.find(separator);
  if (end == text.npos) return std::nullopt;
  const auto blob = parse_sha256(text.substr(0, end));
  const std::string_view rest = text.substr(end + 1);
  const auto chunk = rest == kSameName ? blob : parse_sha256(rest);
  if (!blob || !chunk || (*chunk == *blob && rest != kSameName)) return std::nullopt;
  return ChunkKey{*blob, *chunk};
}

BlobChunks::BlobChunks(std::shared_ptr<const Bytes> blob) : blob_(std::move(blob)) {
  id_.bytes = blob_->size();
  cut(*blob_);
  for (Chunk& chunk : chunks_) chunk.key.blob = id_.name;
}

void BlobChunks::cut(std::span<const uint8_t> bytes) {
  const size_t count = chunks_of(bytes.size());
  auto names = std::make_unique<Bytes>();
  for (size_t i = 0; i < count; ++i) {
    const auto chunk = bytes.subspan(i * kMaxMessageBytes, chunk_bytes(bytes.size(), i));
    chunks_.push_back({{{}, sha256(chunk)}, chunk});
    ByteWriter(*names).put_bytes(chunks_.back().key.chunk.bytes);
  }
  if (count == 1) {
    id_.name = chunks_.back().key.chunk;
    return;
  }
  names_.push_back(std::move(names));
  cut(*names_.back());
}

BlobId blob_id(std::span<const uint8_t> bytes) {
  Bytes names;
  for (size_t i = 0; i < chunks_of(bytes.size()); ++i) {
    const Sha256 name = sha256(bytes.subspan(i * kMaxMessageBytes, chunk_bytes(bytes.size(), i)));
    if (bytes.size() <= kMaxMessageBytes) return {name, bytes.size()};
    ByteWriter(names).put_bytes(name.bytes);
  }
  return {blob_id(names).name, bytes.size()};
}

std::optional<BlobId> list_of(const BlobId& id) {
  if (id.bytes <= kMaxMessageBytes) return std::nullopt;
  return BlobId{id.name, chunks_of(id.bytes) * kNameBytes};
}

std::vector<Sha256> listed_names(std::span<const uint8_t> list) {
  std::vector<Sha256> names(list.size() / kNameBytes);
  if (!names.empty()) std::memcpy(names.data(), list.data(), names.size() * kNameBytes);
  return names;
}

uint64_t chunks_in(uint64_t bytes) {
  uint64_t level = chunks_of(bytes);
  uint64_t chunks = level;
  while (level > 1) {
    level = chunks_of(level * kNameBytes);
    chunks += level;
  }
  return chunks;
}

BlobAssembly::BlobAssembly(const BlobId& id) {
  levels_.push_back(id.bytes);
  while (levels_.back() > kMaxMessageBytes) {
    levels_.push_back(chunks_of(levels_.back()) * kNameBytes);
  }
  names_ = {id.name};
  open_level();
}

void BlobAssembly::open_level() {
  for (size_t i = 0; i < names_.size(); ++i) missing_.emplace(names_[i], i);
  bytes_.clear();
  restart();
}

void BlobAssembly::restart() {
  to_give_.clear();
  for (size_t i = names_.size(); i-- > 0;) {
    const auto first = missing_.find(names_[i]);
    if (first != missing_.end() && first->second == i) to_give_.push_back(names_[i]);
  }
}

std::optional<Sha256> BlobAssembly::next() {
  while (!to_give_.empty()) {
    const Sha256 name = to_give_.back();
    to_give_.pop_back();
    if (missing_.contains(name)) return name;
  }
  return std::nullopt;
}

void BlobAssembly::retry(const Sha256& name) {
  if (missing_.contains(name)) to_give_.push_back(name);
}

bool BlobAssembly::add(const Sha256& name, std::span<const uint8_t> chunk) {
  const auto [first, last] = missing_.equal_range(name);
  if (first == last) return false;
  const uint64_t level = levels_.back();
  // A malicious list of names may give one chunk's name for positions of two lengths.
  const auto fits = [&](const auto& place) {
    return chunk.size() == chunk_bytes(level, place.second);
  };
  if (!std::all_of(first, last, fits) || sha256(chunk) != name) return false;
  bytes_.resize(level);
  for (auto place = first; place != last && !chunk.empty(); ++place) {
    std::memcpy(bytes_.data() + place->second * kMaxMessageBytes, chunk.data(), chunk.size());
  }
  missing_.erase(first, last);
  if (!missing_.empty()) return true;
  levels_.pop_back();
  if (levels_.empty()) return true;
  names_ = listed_names(bytes_);
  open_level();
  return true;
}

}  // namespace thinwire::transport

#include "thinwire/data/set_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::data {
namespace {

fs::path with_suffix(const fs::path& path, const char* suffix) { return path.string() + suffix; }

int make_and_open(const fs::path& folder) {
  fs::create_directories(folder);
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    throw Error(fmt::format("cannot open {}: {}", folder.string(), std::strerror(errno)));
  return file;
}

}  // namespace

PartialFolder::PartialFolder(const fs::path& target)
    : target_(target), partial_(with_suffix(target, ".partial")), lock_(make_and_open(partial_)) {
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    throw Error(fmt::format("another process is preparing {} right now", target_.string()));
  }
  for (const auto& entry : fs::directory_iterator(partial_)) fs::remove_all(entry.path());
}

PartialFolder::~PartialFolder() {
  std::error_code ignored;  // nothing can be done about it here; the next attempt removes it
  if (!published_) fs::remove_all(partial_, ignored);
  ::close(lock_);
}

void PartialFolder::publish() {
  const fs::path old = with_suffix(target_, ".old");
  const bool replaces = fs::exists(target_);
  if (replaces) {
    fs::remove_all(old);
    fs::rename(target_, old);
  }
  publish_directory(partial_, target_);
  published_ = true;
  if (replaces) fs::remove_all(old);
}

SetWriter::SetWriter(std::string name, fs::path folder, const Vocabulary& vocabulary,
                     int64_t shard_tokens)
    : folder_(std::move(folder)),
      vocabulary_(vocabulary),
      shard_tokens_(static_cast<uint64_t>(shard_tokens)) {
  summary_.name = std::move(name);
}

void SetWriter::add(std::span<const int32_t> tokens, uint64_t text_bytes,
                    const std::vector<bool>* learnt, size_t chosen, size_t target) {
  if (shard_ != nullptr && shard_->tokens() + tokens.size() > shard_tokens_) close_shard();
  if (shard_ == nullptr) {
    shard_ = std::make_unique<ShardWriter>(folder_ / shard_name(summary_.shards),
                                           vocabulary_.digest(), vocabulary_.size());
  }
  if (learnt == nullptr) {
    shard_->add_document(tokens);
  } else if (chosen > 0) {
    shard_->add_pair(tokens, *learnt, chosen);
  } else if (target > 0) {
    shard_->add_labelled(tokens, target);
  } else {
    shard_->add_record(tokens, *learnt);
  }
  ++summary_.documents;
  summary_.tokens += tokens.size();
  summary_.text_bytes += text_bytes;
}

void SetWriter::close_shard() {
  shard_->commit();
  summary_.shard_hashes.push_back(shard_->payload_hash());
  shard_.reset();
  ++summary_.shards;
}

SetSummary SetWriter::finish() {
  if (shard_ != nullptr) close_shard();
  return summary_;
}

}  // namespace thinwire::data

#include "thinwire/data/set_writer.h"

#include <utility>

namespace thinwire::data {

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

// Writes one token set: a folder of shards of limited size.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

// A folder that appears complete or not at all.

// Builds <target>.partial and renames it to target. What an earlier, killed attempt left there is
// removed; an attempt still running (it holds a lock on the folder) is an Error.
class PartialFolder {
 public:
  explicit PartialFolder(const fs::path& target);
  ~PartialFolder();  // removes the folder unless it was published
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

  const fs::path& path() const { return partial_; }
  // Replaces whatever was at target.
  void publish();

 private:
  fs::path target_;
  fs::path partial_;
  int lock_ = -1;
  bool published_ = false;
};

class SetWriter {
 public:
  SetWriter(std::string name, fs::path folder, const Vocabulary& vocabulary, int64_t shard_tokens);

  // A shard holds whole documents; a document of more than shard_tokens gets a shard of its own.
  // learnt: of a record, as ShardWriter::add_record takes it; null: a document. chosen: of a pair,
  // as ShardWriter::add_pair takes it; 0: no pair. A pair counts as one document. labelled: the
  // last token is the class.
  void add(std::span<const int32_t> tokens, uint64_t text_bytes,
           const std::vector<bool>* learnt = nullptr, size_t chosen = 0, size_t target = 0);
  // Completes the last shard.
  SetSummary finish();

 private:
  void close_shard();

  SetSummary summary_;
  fs::path folder_;
  const Vocabulary& vocabulary_;
  uint64_t shard_tokens_;
  std::unique_ptr<ShardWriter> shard_;
};

}  // namespace thinwire::data

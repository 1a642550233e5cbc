// Writes one token set: a folder of shards of limited size.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {

class SetWriter {
 public:
  SetWriter(std::string name, fs::path folder, const Vocabulary& vocabulary, int64_t shard_tokens);

  // A shard holds whole documents; a document of more than shard_tokens gets a shard of its own.
  void add(std::span<const int32_t> tokens, uint64_t text_bytes);
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

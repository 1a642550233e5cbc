#include <fmt/format.h>

#include <set>

#include "thinwire/base/error.h"
#include "thinwire/data/prepare_record.h"
#include "thinwire/data/shard.h"

namespace thinwire::data {
namespace {

constexpr const char* kAgain = "run `thinwire prepare --force` with the recipe";

// Refuses shards that the record does not list: they would be trained on unnoticed.
void refuse_unlisted(const fs::path& folder, const PrepareSummary& summary) {
  std::set<fs::path> named;
  for (const SetSummary& set : summary.sets) {
    for (uint64_t number = 0; number < set.shards; ++number) {
      named.insert(set_folder(folder, set.name) / shard_name(number));
    }
  }
  for (const char* part : {"train", "validation"}) {
    if (!fs::is_directory(folder / part)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(folder / part)) {
      if (entry.path().extension() != ".tws" || named.contains(entry.path())) continue;
      throw Error(fmt::format("{} is not one of the shards that {} lists; move it away, or {}",
                              entry.path().string(), (folder / kRecordFile).string(), kAgain));
    }
  }
}

// Checks that there are as many shards as were prepared, with the prepared tokens.
void check_prepared(const TokenSet& tokens, const SetSummary& set, const fs::path& folder) {
  const std::string record = (folder / kRecordFile).string();
  if (tokens.shards().size() != set.shards) {
    throw Error(fmt::format("{} is missing, although {} lists it; {}",
                            (tokens.folder() / shard_name(tokens.shards().size())).string(), record,
                            kAgain));
  }
  if (tokens.tokens() != set.tokens) {
    throw Error(fmt::format("{} holds {} tokens, {} says {}; {}", tokens.folder().string(),
                            tokens.tokens(), record, set.tokens, kAgain));
  }
  for (size_t i = 0; i < set.shard_hashes.size(); ++i) {
    const ShardReader& shard = tokens.shards().at(i);
    if (shard.header().payload_hash == set.shard_hashes[i]) continue;
    throw Error(
        fmt::format("{} is not the shard that was prepared: its tokens have checksum {}, "
                    "{} says {}; {}",
                    shard.path().string(), to_hex(shard.header().payload_hash), record,
                    to_hex(set.shard_hashes[i]), kAgain));
  }
}

}  // namespace

std::map<std::string, TokenSet> open_sets(const fs::path& folder, uint64_t vocabulary_digest,
                                          uint64_t hashed_at_once, ShardBytes* elsewhere) {
  const PrepareRecord record = load_record(folder);
  refuse_unlisted(folder, record.summary);
  std::map<std::string, TokenSet> sets;
  uint64_t bytes = 0;
  for (const SetSummary& set : record.summary.sets) {
    TokenSet tokens =
        TokenSet::open(set_folder(folder, set.name), vocabulary_digest, false, elsewhere);
    check_prepared(tokens, set, folder);
    for (const ShardReader& shard : tokens.shards()) {
      bytes += shard.tokens() * shard.header().token_bytes;
    }
    sets.emplace(set.name, std::move(tokens));
  }
  if (bytes > hashed_at_once || elsewhere != nullptr) return sets;
  for (const auto& [name, tokens] : sets) {
    for (const ShardReader& shard : tokens.shards()) shard.verify();
  }
  return sets;
}

}  // namespace thinwire::data

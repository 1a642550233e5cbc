// The data of a run: described by the coordinator, checked or received by members. A member uses a
// prepared folder on its own disk if it holds exactly the run's tokens; otherwise it receives them
// file by file, keeps complete files when it is interrupted, and checks everything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/file.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/hosts/run_description.h"

namespace thinwire::hosts {

// A shard is sent as one blob, which sender and receiver hold in memory.
inline constexpr uint64_t kMaxShardBytes = uint64_t{1} << 30;

DescribedVocabulary describe_vocabulary(const data::Vocabulary& vocabulary);
// Reads every shard once. Throws UsageError for a shard of more than kMaxShardBytes, naming
// data.shard_tokens.
std::vector<DescribedSet> describe_sets(const std::map<std::string, data::TokenSet>& sets);

// A blob of the description's data as a file of a prepared folder.
struct DataFile {
  transport::BlobId blob;
  fs::path file;  // relative to the folder
};
// A blob that is, or was when the run was founded, a part of a file.
struct FilePart {
  fs::path file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
// Throws Error if the file cannot be read, or if the part is not the blob of this name.
Bytes read_part(const FilePart& part, const Sha256& name);

// The vocabulary first, then all shards; none for an external model, which differs_from and
// receive_data are not for.
std::vector<DataFile> data_files(const RunDescription& description);

// Why `folder` does not hold exactly the run's vocabulary and token sets, as part of a sentence; an
// empty string if it does.
std::string differs_from(const fs::path& folder, const RunDescription& description);

struct Reception {
  // Returns the bytes of a blob, checked; its exceptions end the reception.
  std::function<Bytes(const transport::BlobId& blob)> fetch;
  // Called before the first file and after each one; may be empty.
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress;
};

// Makes `folder` a prepared folder with the run's data. Files that are there and intact are kept.
void receive_data(const fs::path& folder, const RunDescription& description,
                  const Reception& reception);

}  // namespace thinwire::hosts

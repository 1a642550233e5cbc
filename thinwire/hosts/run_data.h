// The data of a run: described by the coordinator, checked or received by members. A member uses a
// prepared folder on its own disk if it holds exactly the run's tokens; otherwise it receives them
// file by file, keeps complete files when it is interrupted, and checks everything.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/file.h"
#include "thinwire/config/sections.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/run_description.h"

namespace thinwire::hosts {

// A shard is sent as one blob, which sender and receiver hold in memory.
inline constexpr uint64_t kMaxShardBytes = uint64_t{1} << 30;

DescribedVocabulary describe_vocabulary(const data::Vocabulary& vocabulary);
// Reads every shard once. Throws UsageError for a shard of more than kMaxShardBytes, naming
// data.shard_tokens. With `own`, members have training sets of their own, and it is left out.
std::vector<DescribedSet> describe_sets(const std::map<std::string, data::TokenSet>& sets,
                                        bool own = false);

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
// `elsewhere`: as data::ShardReader.
std::string differs_from(const fs::path& folder, const RunDescription& description,
                         data::ShardBytes* elsewhere = nullptr);

struct Reception {
  // Returns the bytes of a blob, checked; its exceptions end the reception.
  std::function<Bytes(const transport::BlobId& blob)> fetch;
  // Called before the first file and after each one; may be empty.
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress;
};

// Makes `folder` a prepared folder with the run's data. Files that are there and intact are kept.
void receive_data(const fs::path& folder, const RunDescription& description,
                  const Reception& reception);

// Makes `folder` one with the run's vocabulary and record, and the headers of its shards, whose
// bytes are elsewhere. `headers`: the first kShardHeaderBytes of each shard, in the description's
// order.
void receive_headers(const fs::path& folder, const RunDescription& description,
                     const Reception& reception, std::span<const Bytes> headers);

// Makes the training set of `prepared`, a prepared folder with the run's vocabulary, that of
// `folder`, which receive_data has made of a description without one. It is linked, not copied.
void add_training_set(const fs::path& folder, const RunDescription& description,
                      const fs::path& prepared);

// A member's own text in a run with data.own: prepared with the run's vocabulary on this machine,
// which it never leaves. docs/federated.md.

// The folder in a member's run folder with what was prepared of its own text.
inline constexpr const char* kOwnTextFolder = "own";

struct OwnText {
  // What the member's owner names: a text, a folder of texts, a recipe (.toml) whose [data] names
  // texts and says how they are read, or a folder that `thinwire prepare` has made.
  fs::path given;
  config::RecordKind records = config::RecordKind::kText;  // the run's
  fs::path prepared;  // folder for what is prepared of it; not used for one that is
  const std::atomic<bool>* stop = nullptr;  // set from outside: stop preparing; may be null
};

// Makes the text the training set of `folder`, which has the run's vocabulary and validation sets
// (receive_data). Does nothing again that an earlier call has done, unless the text has changed
// since. Throws UsageError for a text that does not exist or holds other records than the run
// learns, a recipe without text, and a folder that was prepared with another vocabulary; Error for
// bad text.
void add_own_text(const OwnText& text, const fs::path& folder, const RunDescription& description,
                  const events::MessageSink& message);

// The frozen base of a run that trains an adapter: described by the coordinator, and found by
// members in a folder of their own or received. It is named by the digest of its weights
// (checkpoint/adapter_base.h), which every member checks, and travels as the files that the
// coordinator has, in parts, of which those that have arrived are kept when this is interrupted.

// The folders in a member's run folder with the base, and with the tasks' files.
inline constexpr const char* kBaseFolder = "base";
inline constexpr const char* kTasksFolder = "tasks";

// A file, and the name that it gets in the folder of who receives it, perhaps in one of its
// folders.
struct NamedFile {
  std::string name;
  fs::path path;
};

// Reads every file once.
DescribedBase describe_files(uint64_t digest, std::span<const NamedFile> files);
// `files`: in one folder.
DescribedBase describe_base(uint64_t digest, std::span<const fs::path> files);

// The parts of files that were described, by blob name.
std::map<Sha256, FilePart> file_parts(const DescribedBase& described,
                                      std::span<const NamedFile> files);
// The parts of the files in `folder`.
std::map<Sha256, FilePart> base_parts(const DescribedBase& base, const fs::path& folder);

// Whether `folder` has these files. Reads each once.
bool has_files(const fs::path& folder, const DescribedBase& base);

// Makes `folder` appear with these files, which are `what` ("the base"). Parts that an earlier call
// has received are not fetched again. Does nothing if the folder is there. Throws Error if there is
// no room for them; `instead` ends its sentence, with what else would help.
void receive_base(const fs::path& folder, const DescribedBase& base, const Reception& reception,
                  std::string_view what = "the base",
                  std::string_view instead = ", or name a copy of the base with train.init=FOLDER");

}  // namespace thinwire::hosts

// What a joining member receives: everything that must be the same on every host. The description
// is a blob stored by the coordinator; the stream kEntryStream has one record, the entry point, in
// which the coordinator signs the description's name. docs/formats.md, "Run descriptions".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/record.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::hosts {

inline constexpr const char* kEntryStream = "run";
inline constexpr const char* kModelFiles = "hugging_face.json";  // in checkpoints and run folders

struct DescribedShard {
  transport::BlobId file;     // the whole .tws file
  uint64_t payload_hash = 0;  // of its tokens, as in its header
  bool operator==(const DescribedShard&) const = default;
};

// A token set (data/prepare.h).
struct DescribedSet {
  std::string name;     // "train", or the name of a validation set
  uint64_t digest = 0;  // data::TokenSet::digest
  uint64_t documents = 0;
  uint64_t tokens = 0;
  uint64_t text_bytes = 0;
  std::vector<DescribedShard> shards;
  bool operator==(const DescribedSet&) const = default;
};

struct DescribedVocabulary {
  std::string file;  // one of the three names that data/vocabulary.h lists
  int64_t size = 0;
  uint64_t digest = 0;
  transport::BlobId blob;
  bool operator==(const DescribedVocabulary&) const = default;
};

// What is received again after an interruption, and held in memory, is at most this.
inline constexpr uint64_t kMaxPartBytes = uint64_t{16} << 20;

// A file in parts, one after the other, which are not empty unless the file is.
struct DescribedFile {
  std::string name;  // in its folder; perhaps in a folder in that: "arc/dev.jsonl"
  std::vector<transport::BlobId> parts;
  uint64_t bytes() const;
  bool operator==(const DescribedFile&) const = default;
};

// The model that an adapter's factors belong to (run_data.h).
struct DescribedBase {
  uint64_t digest = 0;  // of its weights (checkpoint/adapter_base.h)
  std::vector<DescribedFile> files;
  bool operator==(const DescribedBase&) const = default;

  uint64_t bytes() const;  // of all files
};

struct RunDescription {
  int numerics = 0;    // version (checkpoint/checkpoint.h)
  std::string recipe;  // TOML, without the fields that belong to a machine (shared_recipe.h)
  membership::Founding founding;
  // Neither, where the model is external: what its rows stand for only the members' programs know,
  // and its layout is in the recipe.
  std::optional<DescribedVocabulary> vocabulary;
  std::vector<DescribedSet> sets;  // "train" first, unless members have texts of their own
  bool own = false;                // they do (data.own)
  // What members' checkpoints keep for an export (train::origin_files), the content of
  // kModelFiles; nothing if the model is from no Hugging Face folder.
  std::optional<transport::BlobId> model_files;
  // Nothing if members need no model besides snapshot 0.
  std::optional<DescribedBase> base;
  // What members need of eval.tasks (train::task_files); without a digest. Nothing if the program
  // has all of it.
  std::optional<DescribedBase> tasks;
  bool operator==(const RunDescription&) const = default;

  uint64_t data_bytes() const;  // of all shards
};

// The list of files that a member or the coordinator passes on apart from the description.
// decode_base is total: kCorruptPayload for bytes that are no such list.
Bytes encode_base(const DescribedBase& base);
Result<DescribedBase> decode_base(std::span<const uint8_t> bytes);

Bytes encode_description(const RunDescription& description);

// Total. kCorruptPayload for bytes that are not a description; kRefused, naming the versions, for
// another protocol or numerics version. Names of sets and files are checked, so that they can be
// used as names in a folder.
Result<RunDescription> decode_description(std::span<const uint8_t> bytes);

// The entry point: names the description, signed by the founding coordinator.
Bytes encode_entry(const transport::BlobId& description, const Signer& coordinator);
// Total. kCorruptPayload unless `coordinator` signed it.
Result<transport::BlobId> decode_entry(std::span<const uint8_t> bytes,
                                       const PublicKey& coordinator);

}  // namespace thinwire::hosts

#include "thinwire/hosts/run_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/prepare_record.h"
#include "thinwire/data/shard.h"

namespace thinwire::hosts {
namespace {

transport::BlobId blob_of(const fs::path& file) {
  const MappedFile mapped(file);
  return transport::blob_id(mapped.bytes());
}

// `training`: the member's own training set, where the run has none.
std::string prepare_json(const RunDescription& description,
                         const std::optional<data::SetSummary>& training = {}) {
  data::PrepareRecord record;
  record.settings = nlohmann::json::object();
  const DescribedVocabulary& vocabulary = description.vocabulary.value();
  record.vocabulary_digest = vocabulary.digest;
  record.summary.vocabulary_file = vocabulary.file;
  record.summary.vocabulary_size = vocabulary.size;
  if (training) record.summary.sets.push_back(*training);
  for (const DescribedSet& set : description.sets) {
    data::SetSummary summary{set.name, set.documents, set.tokens, set.text_bytes,
                             set.shards.size()};
    for (const DescribedShard& shard : set.shards) {
      summary.shard_hashes.push_back(shard.payload_hash);
    }
    record.summary.sets.push_back(std::move(summary));
  }
  return data::print_record(record);
}

bool is_there(const fs::path& file, const transport::BlobId& blob) {
  return fs::exists(file) && fs::file_size(file) == blob.bytes && blob_of(file) == blob;
}

}  // namespace

DescribedVocabulary describe_vocabulary(const data::Vocabulary& vocabulary) {
  const std::string text = vocabulary.stored_text();
  return {vocabulary.stored_name(), vocabulary.size(), vocabulary.digest(),
          transport::blob_id(as_bytes(text))};
}

std::vector<DescribedSet> describe_sets(const std::map<std::string, data::TokenSet>& sets,
                                        bool own) {
  std::vector<DescribedSet> all;
  for (const auto& [name, tokens] : sets) {
    if (own && name == data::kTrainSet) continue;
    DescribedSet set{name, tokens.digest(), tokens.documents(), tokens.tokens(), 0, {}};
    for (const data::ShardReader& shard : tokens.shards()) {
      const uint64_t bytes = fs::file_size(shard.path());
      if (bytes > kMaxShardBytes) {
        throw UsageError(fmt::format(
            "[data] shard_tokens: {} has {} bytes, and members receive at most {} in one piece; "
            "prepare the text again with a smaller data.shard_tokens",
            shard.path().string(), bytes, kMaxShardBytes));
      }
      set.shards.push_back({blob_of(shard.path()), shard.header().payload_hash});
    }
    all.push_back(std::move(set));
  }
  std::ranges::stable_partition(
      all, [](const DescribedSet& set) { return set.name == data::kTrainSet; });
  return all;
}

Bytes read_part(const FilePart& part, const Sha256& name) {
  const MappedFile mapped(part.file);
  if (part.offset > mapped.bytes().size() || part.bytes > mapped.bytes().size() - part.offset) {
    throw Error(fmt::format("{} is shorter than when the run was founded", part.file.string()));
  }
  const auto bytes = mapped.bytes().subspan(part.offset, part.bytes);
  if (transport::blob_id(bytes).name != name) {
    throw Error(fmt::format("{} has changed since the run was founded", part.file.string()));
  }
  return {bytes.begin(), bytes.end()};
}

std::vector<DataFile> data_files(const RunDescription& description) {
  std::vector<DataFile> files;
  if (const auto& vocabulary = description.vocabulary) {
    files.push_back({vocabulary->blob, vocabulary->file});
  }
  for (const DescribedSet& set : description.sets) {
    for (size_t number = 0; number < set.shards.size(); ++number) {
      files.push_back(
          {set.shards[number].file, data::set_folder({}, set.name) / data::shard_name(number)});
    }
  }
  return files;
}

std::string differs_from(const fs::path& folder, const RunDescription& description,
                         data::ShardBytes* elsewhere) {
  if (!fs::is_directory(folder)) return "does not exist";
  const uint64_t digest = description.vocabulary.value().digest;
  try {
    const auto vocabulary = data::Vocabulary::load(folder);
    if (vocabulary->digest() != digest) return "has a different vocabulary";
    const auto sets = data::open_sets(folder, vocabulary->digest(), data::kHashedAtOnce, elsewhere);
    for (const DescribedSet& set : description.sets) {
      const auto own = sets.find(set.name);
      if (own == sets.end()) return fmt::format("has no set '{}'", set.name);
      if (own->second.digest() != set.digest) {
        return fmt::format("has different tokens in its set '{}'", set.name);
      }
    }
    if (sets.size() != description.sets.size()) return "has sets that the run does not have";
    return "";
  } catch (const Error& problem) {
    return fmt::format("cannot be used ({})", problem.what());
  }
}

void receive_data(const fs::path& folder, const RunDescription& description,
                  const Reception& reception) {
  const std::vector<DataFile> files = data_files(description);
  const uint64_t all = description.data_bytes() + description.vocabulary.value().blob.bytes;
  uint64_t done = 0;
  const auto show_progress = [&] {
    if (reception.progress) reception.progress(done, all);
  };
  show_progress();
  for (const DataFile& one : files) {
    const fs::path file = folder / one.file;
    if (!is_there(file, one.blob)) {
      fs::create_directories(file.parent_path());
      const Bytes bytes = reception.fetch(one.blob);
      AtomicFile out(file);
      out.write(bytes);
      out.commit();
    }
    done += one.blob.bytes;
    show_progress();
  }
  write_file(folder / data::kRecordFile, prepare_json(description));
}

void receive_headers(const fs::path& folder, const RunDescription& description,
                     const Reception& reception, std::span<const Bytes> headers) {
  const std::vector<DataFile> files = data_files(description);
  const auto write = [&](const DataFile& one, const Bytes& bytes) {
    fs::create_directories((folder / one.file).parent_path());
    AtomicFile out(folder / one.file);
    out.write(bytes);
    out.commit();
  };
  if (!is_there(folder / files.front().file, files.front().blob)) {
    write(files.front(), reception.fetch(files.front().blob));
  }
  for (size_t i = 0; i < headers.size(); ++i) write(files[i + 1], headers[i]);
  write_file(folder / data::kRecordFile, prepare_json(description));
}

void add_training_set(const fs::path& folder, const RunDescription& description,
                      const fs::path& prepared) {
  const data::PrepareSummary own = data::read_prepared(prepared);
  const auto training = std::ranges::find(own.sets, data::kTrainSet, &data::SetSummary::name);
  if (training == own.sets.end()) {
    throw Error(fmt::format("{} has no training set", prepared.string()));
  }
  const fs::path link = data::set_folder(folder, data::kTrainSet);
  fs::remove(link);  // of another text, before
  fs::create_directory_symlink(fs::absolute(data::set_folder(prepared, data::kTrainSet)), link);
  write_file(folder / data::kRecordFile, prepare_json(description, *training));
}

}  // namespace thinwire::hosts

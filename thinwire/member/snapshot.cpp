#include "thinwire/member/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <utility>

#include "thinwire/base/file.h"
#include "thinwire/member/member.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/combinations.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/initial_model.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::member {
namespace {

constexpr std::string_view kMagic = "TWSN";
constexpr uint16_t kVersion = 2;
// The files of a checkpoint without local state.
constexpr std::array<std::string_view, 3> kFiles = {checkpoint::kMetaFile, "weights.safetensors",
                                                    "consensus.safetensors"};

auto corrupt(std::string_view what) {
  return fail(FailureKind::kCorruptPayload, fmt::format("not a snapshot: {}", what));
}

// The names under which a snapshot's files are: those of checkpoint::StagedFolder.
std::array<fs::path, 2> names_of(const fs::path& folder) {
  return {folder, folder.string() + ".partial"};
}

// A folder for files that nobody needs once they are read or mapped.
class PassingFolder {
 public:
  explicit PassingFolder(const fs::path& path) : path_(path) { remove_abandoned_snapshot(path_); }
  ~PassingFolder() {
    std::error_code ignored;  // what remains is removed by the next one, or when a member begins
    for (const fs::path& name : names_of(path_)) fs::remove_all(name, ignored);
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;

 private:
  const fs::path path_;
  const PassingFiles files_;
};

using Contents = std::array<std::span<const uint8_t>, kFiles.size()>;

Result<Contents> contents_of(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  const auto magic = reader.get_bytes(kMagic.size());
  if (!std::ranges::equal(magic, as_bytes(kMagic))) return corrupt("it does not begin with TWSN");
  const auto version = reader.get<uint16_t>();
  if (version != kVersion) {
    return corrupt(fmt::format("it is of version {}, this program's is {}", version, kVersion));
  }
  Contents contents;
  for (std::span<const uint8_t>& file : contents) file = reader.get_bytes(reader.get<uint64_t>());
  if (!reader.at_end()) return corrupt(reader.ok() ? "bytes follow its end" : "it is truncated");
  return contents;
}

}  // namespace

Bytes make_snapshot(uint64_t run, int64_t completed, const tensor::Arena& weights,
                    std::span<const NamedValues> consensus, const fs::path& folder) {
  const PassingFolder passing(folder);
  checkpoint::CheckpointWriter files(folder);
  files.write_weights(weights);
  files.write_consensus(consensus);
  files.commit({.step = static_cast<uint64_t>(completed), .run = run, .method = {}}, 0);
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put_bytes(as_bytes(kMagic));
  writer.put(kVersion);
  for (const std::string_view name : kFiles) {
    const MappedFile file(folder / name);
    writer.put(static_cast<uint64_t>(file.bytes().size()));
    writer.put_bytes(file.bytes());
  }
  return bytes;
}

std::optional<Bytes> try_make_snapshot(
    uint64_t run, int64_t completed, const tensor::Arena& weights,
    std::span<const NamedValues> consensus, const fs::path& folder,
    const std::function<void(const std::string& text)>& message) {
  try {
    return make_snapshot(run, completed, weights, consensus, folder);
  } catch (const Error& problem) {
    message(
        fmt::format("cannot make a snapshot for the run after step {}, which another member "
                    "will be asked for: {}",
                    completed, problem.what()));
    return std::nullopt;
  }
}

void remove_abandoned_snapshot(const fs::path& folder) {
  for (const fs::path& name : names_of(folder)) {
    std::error_code problem;
    fs::remove_all(name, problem);
    if (problem) {
      throw Error(fmt::format("cannot remove {}: {}", name.string(), problem.message()));
    }
  }
}

Result<std::unique_ptr<checkpoint::CheckpointReader>> open_snapshot(std::span<const uint8_t> bytes,
                                                                    const fs::path& folder) {
  const Result<Contents> contents = contents_of(bytes);
  if (!contents) return tl::unexpected(contents.error());
  const PassingFolder passing(folder);
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) {
    throw Error(fmt::format("cannot create {}: {}", folder.string(), problem.message()));
  }
  for (size_t i = 0; i < kFiles.size(); ++i) {
    AtomicFile file(folder / kFiles[i]);
    file.write((*contents)[i]);
    file.commit();
  }
  try {
    return std::make_unique<checkpoint::CheckpointReader>(folder);
  } catch (const Error& damage) {
    return corrupt(damage.what());
  }
}

InitialState make_initial_state(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                                const Sha256& recipe_hash, uint64_t run,
                                std::vector<PublicKey> coordinators,
                                const events::MessageSink& message) {
  check_hosted(recipe);
  method::require_initial_model(recipe);
  const tensor::Layout layout(method::tensors_of(recipe));
  const train::StartingWeights start = train::starting_weights(recipe, vocabulary, layout, message);
  auto bytes = std::make_shared<const Bytes>(
      make_snapshot(run, 0, *start.trained, {}, fs::path(recipe.run.dir) / kSnapshotFolder));
  const transport::BlobId id = transport::blob_id(*bytes);
  std::ranges::sort(coordinators);
  return {{run, recipe_hash, id.name, id.bytes, std::move(coordinators)},
          std::move(bytes),
          start.base_digest};
}

}  // namespace thinwire::member

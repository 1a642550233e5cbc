#include "thinwire/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"

namespace thinwire::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWeightsFile = "weights.safetensors";
constexpr const char* kConsensusFile = "consensus.safetensors";
constexpr const char* kFormat = "thinwire checkpoint";
constexpr uint64_t kVersionWithoutData = 1;
constexpr uint64_t kFormatVersion = 2;
constexpr uint64_t kMaxMetaBytes = 4'000'000;
constexpr std::string_view kStepPrefix = "step-";

std::string worker_file(int worker, std::string_view what = "safetensors") {
  return fmt::format("worker-{:04}.{}", worker, what);
}

using Files = std::map<std::string, CheckpointFile>;

// The text of a checkpoint.json with this content, and its digest.
std::pair<std::string, uint64_t> print_meta(const CheckpointMeta& meta, const Files& files) {
  Json json;
  json["format"] = kFormat;
  json["version"] = meta.data.empty() ? kVersionWithoutData : kFormatVersion;
  json["step"] = meta.step;
  json["tokens"] = meta.tokens;
  json["run"] = to_hex(meta.run);
  if (!meta.data.empty()) json["data"] = Json::object();
  for (const auto& [set, digest] : meta.data) json["data"][set] = to_hex(digest);
  if (meta.ended_at > 0) json["ended_at"] = meta.ended_at;
  json["numerics_version"] = meta.numerics_version;
  json["method"] = meta.method;
  json["workers"] = meta.workers;
  json["files"] = Json::object();
  for (const auto& [name, file] : files) {
    json["files"][name] = {{"bytes", file.bytes}, {"hash", to_hex(file.hash)}};
  }
  const uint64_t digest = hash_bytes(as_bytes(print_json(json)));
  json["digest"] = to_hex(digest);
  return {print_json(json, {.indent = 2}) + "\n", digest};
}

[[noreturn]] void throw_altered(const fs::path& path, std::string_view what) {
  throw Error(fmt::format("{} was altered: {}", path.string(), what));
}

// Reads fields of checkpoint.json by type. A wrong type means that the file was altered.
class MetaParser {
 public:
  MetaParser(const fs::path& path, const Json& json) : path_(path), json_(json) {}

  uint64_t integer(const char* key, uint64_t max = UINT64_MAX) const {
    const Json& value = field(key);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > max) {
      throw_altered(path_, fmt::format("{} is not a count", key));
    }
    return value.get<uint64_t>();
  }
  std::string text(const char* key) const {
    const Json& value = field(key);
    if (!value.is_string()) throw_altered(path_, fmt::format("{} is not a string", key));
    return value.get<std::string>();
  }
  uint64_t hash(const char* key) const {
    const std::string digits = text(key);
    uint64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, value, 16);
    if (error != std::errc() || at != end) {
      throw_altered(path_, fmt::format("{} is not a hexadecimal number", key));
    }
    return value;
  }
  const Json& field(const char* key) const {
    if (!json_.is_object() || !json_.contains(key)) {
      throw_altered(path_, fmt::format("{} is missing", key));
    }
    return json_[key];
  }

 private:
  const fs::path& path_;
  const Json& json_;
};

Json read_meta_json(const fs::path& path, const std::string& text) {
  Json json = try_parse_json<Json>(text);
  if (json.is_discarded()) {
    throw Error(fmt::format("{} was truncated or altered: it is {}", path.string(),
                            json_fault(text, "not JSON")));
  }
  if (!json.is_object() || json.value("format", Json()) != kFormat) {
    throw Error(fmt::format("{} is not a Thinwire checkpoint", path.string()));
  }
  const uint64_t version = MetaParser(path, json).integer("version");
  if (version != kVersionWithoutData && version != kFormatVersion) {
    throw Error(fmt::format("{} has format version {}; this program reads versions {} and {}",
                            path.string(), version, kVersionWithoutData, kFormatVersion));
  }
  return json;
}

std::string read_meta_text(const fs::path& path) {
  if (!fs::is_regular_file(path)) {
    throw Error(fmt::format("{} is not a checkpoint: it has no {}", path.parent_path().string(),
                            kMetaFile));
  }
  if (fs::file_size(path) > kMaxMetaBytes) {
    throw Error(fmt::format("{} is not a Thinwire checkpoint: it is too large", path.string()));
  }
  return read_text_file(path);
}

Files parse_files(const fs::path& path, const Json& json) {
  Files files;
  if (!json.is_object()) throw_altered(path, "files is not an object");
  for (const auto& [name, entry] : json.items()) {
    // Names must be plain, so that nothing outside the folder is opened.
    if (name.empty() || fs::path(name).filename() != name || name == "." || name == "..") {
      throw_altered(path, "a file's name holds a path");
    }
    const MetaParser parser(path, entry);
    files[name] = {parser.integer("bytes"), parser.hash("hash")};
  }
  return files;
}

std::map<std::string, uint64_t> parse_data(const fs::path& path, const Json& json) {
  std::map<std::string, uint64_t> data;
  if (!json.contains("data")) return data;
  if (!json["data"].is_object()) throw_altered(path, "data is not an object");
  const MetaParser parser(path, json["data"]);
  for (const auto& item : json["data"].items()) {
    data[item.key()] = parser.hash(item.key().c_str());
  }
  return data;
}

}  // namespace

std::string checkpoint_name(uint64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::optional<uint64_t> checkpoint_step(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  uint64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  if (error != std::errc() || at != end) return std::nullopt;
  return step;
}

bool is_checkpoint(const fs::path& folder) { return fs::is_regular_file(folder / kMetaFile); }

std::vector<fs::path> list_checkpoints(const fs::path& checkpoints_dir) {
  if (!fs::is_directory(checkpoints_dir)) return {};
  std::map<uint64_t, fs::path> found;
  for (const auto& entry : fs::directory_iterator(checkpoints_dir)) {
    const auto step = checkpoint_step(entry.path());
    if (step && is_checkpoint(entry.path())) found.emplace(*step, entry.path());
  }
  std::vector<fs::path> folders;
  for (auto& [step, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

std::optional<fs::path> newest_checkpoint(const fs::path& checkpoints_dir) {
  const auto found = list_checkpoints(checkpoints_dir);
  if (found.empty()) return std::nullopt;
  return found.back();
}

CheckpointWriter::CheckpointWriter(const fs::path& checkpoints_dir, uint64_t step)
    : staged_(checkpoints_dir / checkpoint_name(step)) {
  remove_abandoned(checkpoints_dir, kStepPrefix);
}

CheckpointWriter::CheckpointWriter(const fs::path& folder) : staged_(folder) {
  require_absent(folder);
}

void CheckpointWriter::note(const std::string& name, CheckpointFile file) {
  const Lock lock(mutex_);
  if (!files_.emplace(name, file).second) {
    throw Error(fmt::format("{} was written twice to {}", name, staged_.partial().string()));
  }
}

void CheckpointWriter::write_weights(const tensor::Arena& params, const TensorProgress& progress) {
  const DType dtype = params.format() == WeightFormat::kF32 ? DType::kF32 : DType::kBf16;
  note(kWeightsFile,
       checkpoint::write_weights(staged_.partial() / kWeightsFile, params, dtype, progress));
}

void CheckpointWriter::write_state(const std::string& name, std::span<const NamedValues> state) {
  std::vector<tensor::SafetensorsEntry> entries;
  for (const NamedValues& item : state) {
    const auto count = static_cast<int64_t>(item.bytes.size()) / dtype_bytes(item.dtype);
    entries.push_back({item.name, {count}, item.dtype});
  }
  tensor::SafetensorsWriter file(staged_.partial() / name, entries, DType::kF32, {});
  for (const NamedValues& item : state) file.write_bytes(item.dtype, item.bytes);
  file.commit();
  note(name, {file.size(), file.hash()});
}

void CheckpointWriter::write_consensus(std::span<const NamedValues> state) {
  write_state(kConsensusFile, state);
}

void CheckpointWriter::write_worker(int worker, std::span<const NamedValues> state,
                                    std::span<const NamedBytes> bytes) {
  write_state(worker_file(worker), state);
  for (const NamedBytes& item : bytes) {
    if (item.values.empty()) continue;
    const std::string name = worker_file(worker, item.name);
    AtomicFile file(staged_.partial() / name);
    file.write(item.values);
    file.commit();
    note(name, {item.values.size(), hash_bytes(item.values)});
  }
}

void CheckpointWriter::add_text(std::string_view name, std::string_view text) {
  write_file(staged_.partial() / name, text);
  note(std::string(name), {text.size(), hash_bytes(as_bytes(text))});
}

void CheckpointWriter::add_file(const fs::path& path, const std::string& name) {
  const MappedFile source(path);
  AtomicFile copy(staged_.partial() / name);
  copy.write(source.bytes());
  copy.commit();
  note(name, {source.bytes().size(), hash_bytes(source.bytes())});
}

void CheckpointWriter::commit(const CheckpointMeta& meta, int64_t keep, int64_t pinned) {
  const Lock lock(mutex_);
  for (int worker = 0; worker < meta.workers; ++worker) {
    if (!files_.contains(worker_file(worker))) {
      throw Error(fmt::format("cannot complete {}: {} was not written", staged_.target().string(),
                              worker_file(worker)));
    }
  }
  write_file(staged_.partial() / kMetaFile, print_meta(meta, files_).first);
  staged_.publish();
  if (keep <= 0) return;
  auto others = list_checkpoints(staged_.target().parent_path());
  std::erase_if(others, [&](const fs::path& other) {
    return other == staged_.target() || static_cast<int64_t>(*checkpoint_step(other)) == pinned;
  });
  const size_t kept = static_cast<size_t>(keep) - 1;
  for (size_t i = 0; i + kept < others.size(); ++i) remove_published(others[i]);
}

CheckpointReader::CheckpointReader(const fs::path& folder) : folder_(folder) {
  const fs::path path = folder_ / kMetaFile;
  const std::string text = read_meta_text(path);
  const Json json = read_meta_json(path, text);
  const MetaParser parser(path, json);
  meta_.step = parser.integer("step");
  meta_.tokens = parser.integer("tokens");
  meta_.run = parser.hash("run");
  meta_.data = parse_data(path, json);
  if (json.contains("ended_at")) meta_.ended_at = parser.integer("ended_at");
  meta_.numerics_version = static_cast<int>(parser.integer("numerics_version", INT32_MAX));
  meta_.method = parser.text("method");
  meta_.workers = static_cast<int>(parser.integer("workers", INT32_MAX));
  files_ = parse_files(path, parser.field("files"));
  const auto [canonical, digest] = print_meta(meta_, files_);
  if (canonical != text)
    throw_altered(path, "its digest or its layout is not the one it was written with");
  digest_ = digest;
  for (const auto& [name, file] : files_) verify_file(name, file);
  for (const auto& [name, file] : files_) {
    if (name.ends_with(".safetensors")) tensors_.emplace(name, folder_ / name);
  }
  if (files_.contains(kRecipeFile)) recipe_text_ = read_text_file(folder_ / kRecipeFile);
}

void CheckpointReader::verify_file(const std::string& name, const CheckpointFile& expected) const {
  const fs::path path = folder_ / name;
  if (!fs::exists(path)) throw Error(fmt::format("{} is missing", path.string()));
  const MappedFile file(path);
  const uint64_t bytes = file.bytes().size();
  if (bytes < expected.bytes) {
    throw Error(fmt::format("{} was truncated: {} bytes, {} were written", path.string(), bytes,
                            expected.bytes));
  }
  if (bytes > expected.bytes) {
    throw_altered(path, fmt::format("{} bytes, {} were written", bytes, expected.bytes));
  }
  if (hash_bytes(file.bytes()) != expected.hash) {
    throw_altered(path, "its hash is not that of the file that was written");
  }
}

const tensor::SafetensorsReader& CheckpointReader::tensors(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(fmt::format("the checkpoint {} holds no {}", folder_.string(), name));
  }
  return found->second;
}

uint64_t CheckpointReader::read_weights(tensor::Arena& params) const {
  const TensorFiles files = tensors_of(weights());
  check_weights(weights().path(), files, params.layout().specs());
  return checkpoint::read_weights(files, params);
}

std::vector<std::string> CheckpointReader::consensus_names() const {
  const auto found = tensors_.find(kConsensusFile);
  return found == tensors_.end() ? std::vector<std::string>() : found->second.names();
}

std::vector<std::string> CheckpointReader::worker_names(int worker) const {
  const auto found = tensors_.find(worker_file(worker));
  return found == tensors_.end() ? std::vector<std::string>() : found->second.names();
}

void CheckpointReader::read_consensus(const StateTensor& out) const {
  tensors(kConsensusFile).read_bytes(out.name, out.dtype, out.bytes);
}

void CheckpointReader::read_worker(int worker, const StateTensor& out) const {
  tensors(worker_file(worker)).read_bytes(out.name, out.dtype, out.bytes);
}

Bytes CheckpointReader::read_worker_bytes(int worker, std::string_view name) const {
  const std::string file = worker_file(worker, name);
  if (!files_.contains(file)) return {};
  const MappedFile mapped(folder_ / file);
  return {mapped.bytes().begin(), mapped.bytes().end()};
}

}  // namespace thinwire::checkpoint

#include "thinwire/hosts/run_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "thinwire/base/digest.h"
#include "thinwire/base/json.h"
#include "thinwire/base/nkey.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFormat = "thinwire-run";
constexpr std::string_view kEntryMagic = "TWRD";
constexpr uint16_t kEntryVersion = 1;

// Thrown and caught here: what is wrong with a description.
struct Malformed {
  std::string what;
};

uint64_t read_digest(const Json& json) {
  const auto text = json.get<std::string>();
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || to_hex(value) != text) {
    throw Malformed{"a digest that is not 16 hexadecimal digits"};
  }
  return value;
}

Sha256 read_sha256(const Json& json) {
  const auto hash = parse_sha256(json.get<std::string>());
  if (!hash) throw Malformed{"a SHA-256 that is not 64 hexadecimal digits"};
  return *hash;
}

Json print(const transport::BlobId& blob) {
  return {{"name", to_hex(blob.name)}, {"bytes", blob.bytes}};
}

transport::BlobId read_blob(const Json& json) {
  return {read_sha256(json.at("name")), json.at("bytes").get<uint64_t>()};
}

Json print(const DescribedSet& set) {
  Json shards = Json::array();
  for (const DescribedShard& shard : set.shards) {
    shards.push_back({{"file", print(shard.file)}, {"hash", to_hex(shard.payload_hash)}});
  }
  return {{"name", set.name},     {"digest", to_hex(set.digest)}, {"documents", set.documents},
          {"tokens", set.tokens}, {"text_bytes", set.text_bytes}, {"shards", shards}};
}

DescribedSet read_set(const Json& json) {
  DescribedSet set{json.at("name"),   read_digest(json.at("digest")), json.at("documents"),
                   json.at("tokens"), json.at("text_bytes"),          {}};
  if (!transport::is_courier_name(set.name)) throw Malformed{"a set with an invalid name"};
  for (const Json& shard : json.at("shards")) {
    set.shards.push_back({read_blob(shard.at("file")), read_digest(shard.at("hash"))});
  }
  if (set.shards.empty()) throw Malformed{"a set without shards"};
  return set;
}

Json print(const DescribedVocabulary& vocabulary) {
  return {{"file", vocabulary.file},
          {"size", vocabulary.size},
          {"digest", to_hex(vocabulary.digest)},
          {"blob", print(vocabulary.blob)}};
}

DescribedVocabulary read_vocabulary(const Json& json) {
  DescribedVocabulary vocabulary{json.at("file"), json.at("size"), read_digest(json.at("digest")),
                                 read_blob(json.at("blob"))};
  constexpr std::string_view kFiles[] = {data::kSentencePieceFile, data::kByteFile,
                                         data::kTokenizerFile};
  if (std::ranges::find(kFiles, vocabulary.file) == std::end(kFiles)) {
    throw Malformed{"a vocabulary of an unknown kind"};
  }
  return vocabulary;
}

Json print(const DescribedBase& base) {
  Json files = Json::array();
  for (const DescribedFile& file : base.files) {
    Json parts = Json::array();
    for (const transport::BlobId& part : file.parts) parts.push_back(print(part));
    files.push_back({{"name", file.name}, {"parts", parts}});
  }
  return {{"digest", to_hex(base.digest)}, {"files", files}};
}

// Whether it names a file in a folder, or in a folder in that.
bool is_inside(std::string_view name) {
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == name.size()) break;
    begin = end + 1;
  }
  return std::ranges::none_of(
      name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

// Its name becomes that of a file in a folder.
DescribedFile read_file(const Json& json) {
  DescribedFile file{json.at("name"), {}};
  if (!is_inside(file.name)) throw Malformed{"a file whose name is a path out of its folder"};
  for (const Json& part : json.at("parts")) file.parts.push_back(read_blob(part));
  if (file.parts.empty()) throw Malformed{"a file without parts"};
  // Sums of them cannot overflow: there would have to be 2^40 parts.
  for (const transport::BlobId& part : file.parts) {
    if (part.bytes > kMaxPartBytes) throw Malformed{"a part of a file that is too large"};
    if (part.bytes == 0 && file.parts.size() > 1) throw Malformed{"a part of a file without bytes"};
  }
  return file;
}

DescribedBase read_base(const Json& json) {
  DescribedBase base{read_digest(json.at("digest")), {}};
  std::set<std::string> names;
  for (const Json& one : json.at("files")) {
    const DescribedFile& file = base.files.emplace_back(read_file(one));
    if (!names.insert(file.name).second) throw Malformed{"a file twice"};
  }
  if (base.files.empty()) throw Malformed{"a list without files"};
  return base;
}

Json print(const membership::Founding& founding) {
  Json coordinators = Json::array();
  for (const PublicKey& key : founding.coordinators) coordinators.push_back(participant_name(key));
  return {{"run", to_hex(founding.run)},
          {"weights", print(transport::BlobId{founding.weights, founding.weights_bytes})},
          {"coordinators", coordinators}};
}

membership::Founding read_founding(const Json& json, std::string_view recipe) {
  const transport::BlobId weights = read_blob(json.at("weights"));
  membership::Founding founding{
      read_digest(json.at("run")), sha256(as_bytes(recipe)), weights.name, weights.bytes, {}};
  for (const Json& one : json.at("coordinators")) {
    const auto key = decode_public_key(NKeyKind::kUser, one.get<std::string>());
    if (!key) throw Malformed{"a coordinator with an invalid key"};
    founding.coordinators.push_back(*key);
  }
  return founding;
}

Result<RunDescription> read_description(const Json& json) {
  if (json.at("format") != kFormat) throw Malformed{"it has a different format"};
  const int protocol = json.at("protocol");
  if (protocol != kProtocolVersion) {
    return fail(
        FailureKind::kRefused,
        fmt::format("the run was founded with protocol version {}, this program has version "
                    "{}: use the version of thinwire that founded it",
                    protocol, kProtocolVersion));
  }
  RunDescription description;
  description.numerics = json.at("numerics");
  if (description.numerics != checkpoint::kNumericsVersion) {
    return fail(
        FailureKind::kRefused,
        fmt::format("the run has numerics version {}, this program version {}, whose weights "
                    "would differ from the others'; use the program that serves the run",
                    description.numerics, checkpoint::kNumericsVersion));
  }
  description.recipe = json.at("recipe");
  description.founding = read_founding(json.at("founding"), description.recipe);
  if (json.contains("vocabulary")) {
    description.vocabulary = read_vocabulary(json.at("vocabulary"));
    for (const Json& set : json.at("sets")) description.sets.push_back(read_set(set));
    description.own = json.value("own", false);
    const auto training =
        std::ranges::count(description.sets, data::kTrainSet, &DescribedSet::name);
    const bool is_first =
        !description.sets.empty() && description.sets.front().name == data::kTrainSet;
    if (description.own ? training > 0 : !is_first) {
      throw Malformed{description.own ? "it has a training set, and so has each member"
                                      : "it has no training set"};
    }
  } else if (json.contains("sets")) {
    throw Malformed{"it has sets without a vocabulary"};
  }
  if (json.contains("model_files")) description.model_files = read_blob(json.at("model_files"));
  if (json.contains("base")) description.base = read_base(json.at("base"));
  if (json.contains("tasks")) description.tasks = read_base(json.at("tasks"));
  return description;
}

}  // namespace

uint64_t DescribedFile::bytes() const {
  uint64_t bytes = 0;
  for (const transport::BlobId& part : parts) bytes += part.bytes;
  return bytes;
}

uint64_t DescribedBase::bytes() const {
  uint64_t bytes = 0;
  for (const DescribedFile& file : files) bytes += file.bytes();
  return bytes;
}

uint64_t RunDescription::data_bytes() const {
  uint64_t bytes = 0;
  for (const DescribedSet& set : sets) {
    for (const DescribedShard& shard : set.shards) bytes += shard.file.bytes;
  }
  return bytes;
}

namespace {

Bytes encode(const Json& json) {
  const std::string text = print_json(json, {.indent = 1}) + "\n";
  const auto bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

// What `read` makes of the bytes, which are those of `what`.
template <typename Read>
auto decode(std::span<const uint8_t> bytes, std::string_view what, const Read& read)
    -> decltype(read(Json())) {
  const auto malformed = [&](std::string_view problem) {
    return fail(FailureKind::kCorruptPayload, fmt::format("{} is malformed: {}", what, problem));
  };
  try {
    return read(parse_json<Json>({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  } catch (const Malformed& problem) {
    return malformed(problem.what);
  } catch (const Json::exception& problem) {
    return malformed(problem.what());
  }
}

}  // namespace

Bytes encode_description(const RunDescription& description) {
  Json json = {{"format", kFormat},
               {"protocol", kProtocolVersion},
               {"numerics", description.numerics},
               {"recipe", description.recipe},
               {"founding", print(description.founding)}};
  if (description.vocabulary) {
    json["vocabulary"] = print(*description.vocabulary);
    Json& sets = json["sets"] = Json::array();
    for (const DescribedSet& set : description.sets) sets.push_back(print(set));
    if (description.own) json["own"] = true;
  }
  if (description.model_files) json["model_files"] = print(*description.model_files);
  if (description.base) json["base"] = print(*description.base);
  if (description.tasks) json["tasks"] = print(*description.tasks);
  return encode(json);
}

Result<RunDescription> decode_description(std::span<const uint8_t> bytes) {
  return decode(bytes, "the run's description", read_description);
}

Bytes encode_base(const DescribedBase& base) { return encode(print(base)); }

Result<DescribedBase> decode_base(std::span<const uint8_t> bytes) {
  return decode(bytes, "the list of files",
                [](const Json& json) { return Result<DescribedBase>(read_base(json)); });
}

Bytes encode_entry(const transport::BlobId& description, const Signer& coordinator) {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put_bytes(as_bytes(kEntryMagic));
  out.put(kEntryVersion);
  out.put_bytes(description.name.bytes);
  out.put(description.bytes);
  const Signature signature = coordinator.sign(bytes);
  out.put_bytes(signature.bytes);
  return bytes;
}

Result<transport::BlobId> decode_entry(std::span<const uint8_t> bytes,
                                       const PublicKey& coordinator) {
  ByteReader in(bytes);
  const auto magic = in.get_bytes(kEntryMagic.size());
  const auto version = in.get<uint16_t>();
  const auto name = in.get_bytes(sizeof(Sha256));
  transport::BlobId id;
  id.bytes = in.get<uint64_t>();
  const auto signed_until = bytes.size() - in.remaining();
  const auto signature_bytes = in.get_bytes(sizeof(Signature));
  if (!in.at_end() || version != kEntryVersion ||
      !std::ranges::equal(magic, as_bytes(kEntryMagic))) {
    return fail(FailureKind::kCorruptPayload, "the run's entry point is malformed");
  }
  std::ranges::copy(name, id.name.bytes.begin());
  Signature signature;
  std::ranges::copy(signature_bytes, signature.bytes.begin());
  if (!verify(coordinator, bytes.first(signed_until), signature)) {
    return fail(FailureKind::kCorruptPayload,
                "the run's entry point is not signed by the coordinator that the token names");
  }
  return id;
}

}  // namespace thinwire::hosts

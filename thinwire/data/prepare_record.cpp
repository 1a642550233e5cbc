#include "thinwire/data/prepare_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <variant>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/data/chat/chat_template.h"
#include "thinwire/data/split.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "thinwire-prepared";
constexpr int kVersion = 1;
// Recipes that come with the program name these.
constexpr std::array<std::string_view, 2> kFetchedTexts = {"data/text/gcide.txt",
                                                           "data/text/kjv.txt"};
constexpr const char* kAgain = "run `thinwire prepare --force` with the recipe to prepare it again";

struct WriteSetting {
  Json& json;
  void operator()(const auto* value) const { json = *value; }
  void operator()(const config::NamedTarget& target) const { json = target.name(); }
};

// Throws the JSON library's exception for a value of the wrong type.
struct ReadSetting {
  const Json& json;
  void operator()(auto* value) const { json.get_to(*value); }
  void operator()(const config::NamedTarget&) const { (void)json.get<std::string>(); }
};

// Whether the field says where the prepared data are or how members receive them, and not what they
// are.
bool is_no_setting(std::string_view field) { return field == "dir" || field.starts_with("fetch"); }

Json settings_of(config::DataSection data) {
  config::Fields fields;
  data.describe(fields);
  Json settings;
  for (const config::Field& field : fields.all()) {
    if (is_no_setting(field.name)) continue;
    std::visit(WriteSetting{settings[field.name]}, field.target);
  }
  return settings;
}

std::map<std::string, const InputFile*> by_path(const std::vector<InputFile>& files) {
  std::map<std::string, const InputFile*> result;
  for (const InputFile& file : files) result.emplace(file.path.string(), &file);
  return result;
}

uint64_t parse_hash(const std::string& digits) {
  uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

SetSummary read_set(const Json& json) {
  SetSummary set{json.at("name"), json.at("documents"), json.at("tokens"), json.at("text_bytes"),
                 json.at("shards")};
  for (const Json& hash : json.value("shard_hashes", Json::array())) {
    set.shard_hashes.push_back(parse_hash(hash));
  }
  if (!set.shard_hashes.empty() && set.shard_hashes.size() != set.shards) {
    throw Error(fmt::format("{} names {} shards of set {} and the hashes of {}", kRecordFile,
                            set.shards, set.name, set.shard_hashes.size()));
  }
  return set;
}

Json print_set(const SetSummary& set) {
  Json hashes = Json::array();
  for (const uint64_t hash : set.shard_hashes) hashes.push_back(to_hex(hash));
  return {{"name", set.name},     {"documents", set.documents},
          {"tokens", set.tokens}, {"text_bytes", set.text_bytes},
          {"shards", set.shards}, {"shard_hashes", hashes}};
}

// The value of a setting, or its default if an earlier version did not have it.
Json setting(const PrepareRecord& record, const std::string& name) {
  static const Json defaults = settings_of({});
  return record.settings.value(name, defaults.at(name));
}

// The record's split of its text, whose size is known once it has been prepared.
Split split_in(const PrepareRecord& record, const TextSize& size) {
  config::DataSection data;
  data.validation_fraction = setting(record, "validation_fraction");
  data.validation_block = setting(record, "validation_block");
  return split_of(data, size);
}

// Whether the blocks are the same, even if written differently: 64, or 0 that stands for 64 here.
bool same_split(const PrepareRecord& old, const PrepareRecord& wanted) {
  TextSize size;
  for (const SetSummary& set : old.summary.sets) {
    if (set.name != "train" && set.name != "validation") continue;
    size.documents += set.documents;
    size.bytes += set.text_bytes;
  }
  return split_in(old, size) == split_in(wanted, size);
}

// Reads every setting once, so that a wrong type is noticed here.
Json read_settings(const Json& settings) {
  config::DataSection data;
  config::Fields fields;
  data.describe(fields);
  for (const config::Field& field : fields.all()) {
    if (is_no_setting(field.name) || !settings.contains(field.name)) continue;
    std::visit(ReadSetting{settings.at(field.name)}, field.target);
  }
  return settings.get<Json::object_t>();
}

// What is counted.
std::string unit_of(config::RecordKind records) {
  if (records == config::RecordKind::kText) return "document";
  return records == config::RecordKind::kPreferences ? "pair" : "record";
}

config::RecordKind records_of(const PrepareRecord& record) {
  const std::string name = setting(record, "records");
  if (const auto kind = value_named<config::RecordKind>(name)) return *kind;
  throw Error(
      fmt::format("{} has records = \"{}\", which is unknown; {}", kRecordFile, name, kAgain));
}

PrepareRecord read_record(const Json& json) {
  PrepareRecord record;
  record.settings = read_settings(json.at("settings"));
  for (const Json& input : json.at("inputs")) {
    record.inputs.push_back(
        {input.at("path").get<std::string>(), input.at("bytes"), input.at("modified_ns")});
  }
  const Json& vocabulary = json.at("vocabulary");
  record.vocabulary_digest = parse_hash(vocabulary.at("digest"));
  record.summary.unit = unit_of(records_of(record));
  record.summary.vocabulary_file = vocabulary.at("file");
  record.summary.vocabulary_size = vocabulary.at("size");
  record.summary.replaced = json.at("replaced");
  if (const auto skipped = json.find("skipped"); skipped != json.end()) {
    record.summary.skipped = {skipped->at("lines"), skipped->at("first")};
  }
  record.summary.input_files = record.inputs.size();
  for (const Json& set : json.at("sets")) record.summary.sets.push_back(read_set(set));
  return record;
}

// Throws Error for a text that is missing.
void require_texts(const config::DataSection& data) {
  for (const std::string& path : data.text) {
    if (file_exists(path)) continue;
    const bool fetched = std::ranges::find(kFetchedTexts, path) != kFetchedTexts.end();
    throw Error(fmt::format("[data] text: there is no file or folder {}{}", path,
                            fetched ? "; tools/fetch_texts.sh writes it, or name a text of your "
                                      "own, as data.text=FILE"
                                    : ""));
  }
}

}  // namespace

std::vector<NamedText> named_texts(const config::DataSection& data) {
  std::vector<NamedText> texts;
  for (const std::string& entry : data.validation_text) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == entry.size()) {
      throw UsageError(
          fmt::format("[data] validation_text must hold entries like name=path, got '{}'", entry));
    }
    texts.push_back({entry.substr(0, equals), entry.substr(equals + 1)});
  }
  return texts;
}

PrepareRecord make_record(const config::DataSection& data) {
  if (data.text.empty()) {
    throw UsageError("[data] text must name at least one file or folder to prepare, got none");
  }
  PrepareRecord record;
  record.settings = settings_of(data);
  require_texts(data);
  record.inputs = list_inputs(data.text);
  for (const NamedText& text : named_texts(data)) {
    const auto files = list_inputs({text.path});
    record.inputs.insert(record.inputs.end(), files.begin(), files.end());
  }
  if (!data.vocabulary_model.empty())
    record.inputs.push_back(describe_input(data.vocabulary_model));
  if (has_chats(data.records)) {
    for (const fs::path& file : chat_template_files(data)) {
      record.inputs.push_back(describe_input(file));
    }
  }
  record.summary.input_files = record.inputs.size();
  record.summary.unit = unit_of(data.records);
  return record;
}

std::vector<std::string> differences(const PrepareRecord& old, const PrepareRecord& wanted) {
  std::vector<std::string> found;
  for (const auto& [name, value] : wanted.settings.items()) {
    const Json before = setting(old, name);
    if (name == "validation_block" && same_split(old, wanted)) continue;
    if (before != value) {
      found.push_back(
          fmt::format("data.{} was {}, is {}", name, print_json(before), print_json(value)));
    }
  }
  const auto before = by_path(old.inputs);
  const auto now = by_path(wanted.inputs);
  for (const auto& [path, file] : now) {
    const auto known = before.find(path);
    if (known == before.end()) {
      found.push_back(fmt::format("{} is new", path));
    } else if (known->second->bytes != file->bytes ||
               known->second->modified_ns != file->modified_ns) {
      found.push_back(fmt::format("{} has changed", path));
    }
  }
  for (const auto& [path, file] : before) {
    if (!now.contains(path)) found.push_back(fmt::format("{} is no longer an input", path));
  }
  return found;
}

std::string print_record(const PrepareRecord& record) {
  Json inputs = Json::array();
  for (const InputFile& input : record.inputs) {
    inputs.push_back({{"path", input.path.string()},
                      {"bytes", input.bytes},
                      {"modified_ns", input.modified_ns}});
  }
  Json sets = Json::array();
  for (const SetSummary& set : record.summary.sets) sets.push_back(print_set(set));
  const Json json = {
      {"format", kFormat},
      {"version", kVersion},
      {"settings", record.settings},
      {"inputs", inputs},
      {"vocabulary",
       {{"file", record.summary.vocabulary_file},
        {"size", record.summary.vocabulary_size},
        {"digest", to_hex(record.vocabulary_digest)}}},
      {"replaced", record.summary.replaced},
      {"skipped",
       {{"lines", record.summary.skipped.count}, {"first", record.summary.skipped.first}}},
      {"sets", sets}};
  return print_json(json, {.indent = 2}) + "\n";
}

PrepareRecord load_record(const fs::path& folder) {
  const fs::path file = folder / kRecordFile;
  if (!fs::exists(file)) {
    throw Error(fmt::format("{} is not a prepared folder: there is no {}; run `thinwire prepare`",
                            folder.string(), kRecordFile));
  }
  const auto damaged = [&](std::string_view why) {
    return Error(fmt::format("{} is damaged: {}; {}", file.string(), why, kAgain));
  };
  const std::string text = read_text_file(file);
  try {
    const Json json = parse_json<Json>(text);
    if (json.at("format") != kFormat || json.at("version") != kVersion) {
      throw Error(fmt::format("{} has another format: expected format {}, version {}; {}",
                              file.string(), kFormat, kVersion, kAgain));
    }
    PrepareRecord record = read_record(json);
    record.summary.folder = folder;
    return record;
  } catch (const Json::parse_error&) {
    throw damaged("it is " + json_fault(text, "not JSON"));
  } catch (const Json::out_of_range&) {
    throw damaged("a part is missing");
  } catch (const Json::exception&) {
    throw damaged("a value in it has a wrong type");
  }
}

}  // namespace thinwire::data

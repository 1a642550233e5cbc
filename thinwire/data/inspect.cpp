#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/prepare_record.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

constexpr uint64_t kTokensShown = 32;

// The vocabulary of the prepared folder that contains a shard, if its digest matches; else null.
std::unique_ptr<Vocabulary> vocabulary_near(const fs::path& shard, uint64_t digest) {
  fs::path folder = fs::absolute(shard).parent_path();
  for (int level = 0; level < 3; ++level) {
    folder = folder.parent_path();
    auto vocabulary = Vocabulary::find_in(folder);
    if (vocabulary != nullptr && vocabulary->digest() == digest) return vocabulary;
  }
  return nullptr;
}

std::string checksum_state(const ShardReader& shard) {
  try {
    shard.verify();
    return "ok";
  } catch (const Error&) {
    return "WRONG: the tokens are altered";
  }
}

std::string ratio(uint64_t of, uint64_t to) {
  return to == 0 ? "-" : fmt::format("{:.2f}", static_cast<double>(of) / static_cast<double>(to));
}

}  // namespace

std::string describe_shard(const fs::path& path) {
  const ShardReader shard(path);
  const ShardHeader& header = shard.header();
  std::string text = fmt::format(
      "shard         {}\nversion       {}\ntokens        {}\n{:<13} {}\n"
      "bytes a token {}\nvocabulary    {}\nchecksum      {} {}\n",
      path.string(), header.version(), header.tokens,
      header.has_records() ? "records" : "documents", header.documents, header.token_bytes,
      to_hex(header.vocabulary_digest), to_hex(header.payload_hash), checksum_state(shard));
  if (header.has_records()) {
    uint64_t learnt = 0;
    for (uint64_t token = 0; token < header.tokens; ++token) learnt += shard.learnt(token) ? 1 : 0;
    text += fmt::format("learnt        {}\n", counted(learnt, "token"));
  }
  std::vector<int32_t> tokens(std::min(kTokensShown, header.tokens));
  shard.read(0, tokens);
  text += "begins        ";
  for (const int32_t token : tokens) text += fmt::format("{} ", token);
  const auto vocabulary = vocabulary_near(path, header.vocabulary_digest);
  if (vocabulary == nullptr) return text + "\n";
  const bool known = std::ranges::all_of(
      tokens, [&](int32_t token) { return token >= 0 && token < vocabulary->size(); });
  return text + "\nas text       " + (known ? vocabulary->decode(tokens) : "(damaged)") + "\n";
}

std::string describe_vocabulary(const fs::path& file) {
  const auto vocabulary = Vocabulary::load_file(file);
  const int32_t size = vocabulary->size();
  const auto mark = [&](int32_t token) {
    return token < 0 ? "none" : fmt::format("{} {}", token, vocabulary->name(token));
  };
  std::string text = fmt::format(
      "vocabulary    {}\nkind          SentencePiece\npieces        {}\nbegin         {}\n"
      "end           {}\ndigest        {}\nfor example  ",
      file.string(), size, mark(vocabulary->bos()), mark(vocabulary->eos()),
      to_hex(vocabulary->digest()));
  constexpr int64_t kExamples = 8;  // spread evenly
  for (int64_t i = 0; i < kExamples; ++i) {
    text += " " + vocabulary->name(static_cast<int32_t>(size * (2 * i + 1) / (2 * kExamples)));
  }
  return text + "\n";
}

std::string describe_prepared(const fs::path& folder) {
  const PrepareRecord record = load_record(folder);
  const PrepareSummary& summary = record.summary;
  std::string text = fmt::format("prepared      {}\nvocabulary    {}, {} tokens, digest {}\n",
                                 folder.string(), summary.vocabulary_file, summary.vocabulary_size,
                                 to_hex(record.vocabulary_digest));
  text += fmt::format("replaced      {}\n", counted(summary.replaced, "invalid UTF-8 sequence"));
  text += fmt::format("skipped       {}\n", counted(summary.skipped.count, "bad line"));
  for (const std::string& line : summary.skipped.first)
    text += fmt::format("              {}\n", line);
  for (const SetSummary& set : summary.sets) {
    text += fmt::format("set           {}: {}, {}, {} bytes a token, {}\n", set.name,
                        counted(set.documents, summary.unit), counted(set.tokens, "token"),
                        ratio(set.text_bytes, set.tokens), counted(set.shards, "shard"));
  }
  for (const InputFile& input : record.inputs) {
    text += fmt::format("input         {}, {}\n", input.path.string(),
                        format_bytes(static_cast<double>(input.bytes)));
  }
  for (const auto& [name, value] : record.settings.items()) {
    text += fmt::format("setting       data.{} = {}\n", name, print_json(value));
  }
  return text;
}

}  // namespace thinwire::data

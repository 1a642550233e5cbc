// Text -> vocabulary -> token shards, in two streaming passes: the first samples training text and
// trains the vocabulary, the second tokenises. Memory does not grow with the corpus.
//
// The prepared folder (data.dir): the vocabulary's file, the chat template of chats
// (chat/chat_template.h), prepare.json (settings, inputs, counts), train/NNNNN.tws,
// validation/<set>/NNNNN.tws. It is built as <data.dir>.partial and appears under its name by one
// rename. Every document ends with EOS. data.validation_fraction of the documents becomes the set
// "validation", taken in blocks of documents spread evenly (data/split.h); each of
// data.validation_text ("name=path") becomes a set of its own. The vocabulary is trained on
// training documents only. The result depends only on the text and the [data] section, not on the
// number of cores or the run's seed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/config/sections.h"
#include "thinwire/data/text.h"

namespace thinwire::data {

inline constexpr const char* kTrainSet = "train";

struct SetSummary {
  std::string name;         // "train", "validation", ...
  uint64_t documents = 0;   // or records, or pairs
  uint64_t tokens = 0;      // EOS included
  uint64_t text_bytes = 0;  // UTF-8 bytes of the documents
  uint64_t shards = 0;
  // XXH3 of each shard's tokens; empty if an older program prepared them.
  std::vector<uint64_t> shard_hashes = {};
};

struct PrepareSummary {
  fs::path folder;
  bool already_prepared = false;
  int64_t vocabulary_size = 0;
  std::string vocabulary_file;
  uint64_t replaced = 0;  // invalid UTF-8 pieces that became U+FFFD
  SkippedLines skipped;   // under data.bad_lines = "skip"
  uint64_t input_files = 0;
  std::string unit = "document";  // of a set: or "record", or "pair" of preferences
  std::vector<SetSummary> sets;   // train first
};

struct PrepareProgress {
  // "counting documents", "reading", "training the vocabulary", "tokenising"
  std::string phase;
  uint64_t done = 0;     // bytes of input read in this phase
  uint64_t total = 0;    // 0 if not known
  SkippedLines skipped;  // in this phase
  std::string note;      // DocumentSource::separator_note
};

struct PrepareOptions {
  bool force = false;  // replace a folder prepared from different text or settings
  int threads = 0;     // 0: all cores; the result is the same
  // May be empty; called a few times a second.
  std::function<void(const PrepareProgress&)> progress = {};
  // May be empty; true makes prepare throw Interrupted.
  std::function<bool()> cancelled = {};
};

// Does the work, or returns at once with already_prepared when the folder holds the same inputs
// (path, size, modification time) prepared with the same settings. Throws UsageError for a recipe
// that makes no sense; Error for bad text, a differently prepared folder without force, or a folder
// that is not Thinwire's; Interrupted when cancelled. In each case nothing is left behind.
PrepareSummary prepare(const config::DataSection& data, const PrepareOptions& options);

// What prepare.json of a prepared folder says. Throws Error when there is none or it is damaged.
PrepareSummary read_prepared(const fs::path& folder);

// The differences between the settings with which data.dir was prepared and those in `data`, one
// line each. Empty if nothing can be compared because data.text is not set or no longer exists.
std::vector<std::string> preparation_changes(const config::DataSection& data);

// The folder of a set's shards in a prepared folder: train/, or validation/<name>/.
fs::path set_folder(const fs::path& folder, const std::string& name);

// Readable descriptions of what is written, for `thinwire inspect`.

// A shard's header, whether its checksum matches, and its first tokens, also as text if the
// vocabulary of its prepared folder is found. Throws Error when it is not a readable shard.
std::string describe_shard(const fs::path& path);

// A prepared folder: inputs, vocabulary and sets.
std::string describe_prepared(const fs::path& folder);

// A SentencePiece model: its number of pieces, its begin and end tokens, and some example pieces.
std::string describe_vocabulary(const fs::path& file);

}  // namespace thinwire::data

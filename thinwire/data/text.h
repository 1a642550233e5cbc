// Documents read from files, streaming: .txt and .jsonl, each also .gz, .bz2 or .zst; folders are
// walked recursively in sorted order and only files with these endings are taken. Memory stays
// bounded by the largest document, which is at most max_document_bytes, whatever the input.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/data/records.h"

namespace thinwire::data {

namespace fs = std::filesystem;

struct TextOptions {
  config::DocumentEnd document = config::DocumentEnd::kBlankLine;
  std::string text_field = "text";  // the field of a .jsonl line that holds the document
  // Set: lines of .jsonl files are records instead, and there must be no .txt files.
  std::shared_ptr<const RecordReader> records = {};
  // false: bytes that are not UTF-8 are an Error naming file and byte offset; true: each maximal
  // invalid piece becomes U+FFFD and is counted.
  bool replace_invalid = false;
  // Lines of a .jsonl file that hold no document (not JSON, no text field, not text) are skipped
  // and counted instead of being an Error. A file with only such lines is still an Error.
  bool skip_bad_lines = false;
  // A longer .txt document is cut into several at the end of a line, or inside a line that is
  // longer than this; a longer .jsonl line is a bad line.
  uint64_t max_document_bytes = uint64_t{16} << 20;
};

// An input file, with what shows whether it has changed.
struct InputFile {
  fs::path path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
};

// Lines that were skipped.
struct SkippedLines {
  static constexpr size_t kNamed = 5;

  uint64_t count = 0;
  std::vector<std::string> first;  // at most kNamed: "<file>: line <number> <why>"

  void add(std::string line);
  void add(const SkippedLines& later);
};

// The files named by the paths, which may be files or folders, in reading order. Throws Error for a
// path that does not exist, a file with an unknown ending, a folder without any readable file, and
// a file that is listed twice.
std::vector<InputFile> list_inputs(const std::vector<std::string>& paths);

// One file with any ending; throws Error when it does not exist.
InputFile describe_input(const fs::path& path);

// Returns the documents of `files` one after another, except those that are only whitespace. A
// document of a .txt file has no blank lines before it and no whitespace at its end, which belong
// to the file's layout; one of a .jsonl line is the text exactly as it is there. "\r\n" in a .txt
// file counts as "\n"; a byte order mark is dropped. Throws Error, naming the file and byte offset
// or line, for what is not text (NUL bytes), not UTF-8, damaged compression, or not JSON. Offsets
// count uncompressed bytes. Not thread-safe.
class DocumentSource {
 public:
  DocumentSource(std::vector<InputFile> files, TextOptions options);
  ~DocumentSource();
  DocumentSource(const DocumentSource&) = delete;
  DocumentSource& operator=(const DocumentSource&) = delete;

  // The next document; nullopt at the end. An input file without any document is an Error, and so,
  // at the end, are files with the same text.
  std::optional<std::string> next();
  // What is known of the last returned document; only for records. Its text is empty.
  const Record& record() const;

  // Progress in bytes of the files as stored on disk.
  uint64_t bytes_read() const;
  uint64_t total_bytes() const;
  uint64_t replaced() const;    // invalid pieces replaced so far
  uint64_t text_bytes() const;  // bytes of the documents returned so far
  // The first line of a .txt file that separates documents elsewhere and was taken for text here,
  // with what makes use of it; empty if there was none.
  const std::string& separator_note() const;
  const SkippedLines& skipped() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Text given twice is refused: one copy might be trained on while the other is held out, and the
// validation loss would mean nothing.

// Throws Error naming both paths if two of them are the same file, following links.
void refuse_same_file(const std::vector<InputFile>& files);

// Detects files of equal text, however they are compressed, by the digests of their contents.
class TextDigests {
 public:
  void add(const fs::path& file, uint64_t digest);
  // Throws Error naming the files of equal text if there are any.
  void refuse_equal() const;

 private:
  std::map<uint64_t, fs::path> files_;
  std::vector<std::string> equal_;  // "a.txt and a.txt.gz"
};

}  // namespace thinwire::data

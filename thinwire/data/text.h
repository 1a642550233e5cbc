// Documents out of files, streaming: .txt and .jsonl, each also .gz or .zst; folders are walked
// recursively in sorted order and only files with these endings are taken. Memory stays bounded by
// the largest document, which is at most max_document_bytes, whatever the input.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace thinwire::data {

namespace fs = std::filesystem;

struct TextOptions {
  // What ends a document of a .txt file:
  //   blank_line  a line without any visible character
  //   entry       a blank line and then a line that is not indented (dictionaries)
  //   line        every line
  //   file        the file's end
  std::string document = "blank_line";
  std::string text_field = "text";  // the field of a .jsonl line that holds the document
  // false: bytes that are not UTF-8 are an Error naming file and byte offset; true: each maximal
  // invalid piece becomes U+FFFD and is counted.
  bool replace_invalid = false;
  // Lines of a .jsonl file that hold no document (not JSON, no text field, not text) are left out
  // and counted instead of an Error. A file of such lines alone stays an Error.
  bool skip_bad_lines = false;
  // A longer .txt document is cut into several at a line's end, or inside a line that is longer
  // than this; a longer .jsonl line is a bad one.
  uint64_t max_document_bytes = uint64_t{16} << 20;
};

// An input file and what tells whether it changed.
struct InputFile {
  fs::path path;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
};

// Lines that were left out.
struct SkippedLines {
  static constexpr size_t kNamed = 5;

  uint64_t count = 0;
  std::vector<std::string> first;  // at most kNamed: "<file>: line <number> <why>"

  void add(std::string line);
  void add(const SkippedLines& later);
};

// The files that paths (files or folders) stand for, in reading order. Throws Error for a path that
// does not exist, a file of unknown ending, a folder without any readable file, and a file that is
// named twice.
std::vector<InputFile> list_inputs(const std::vector<std::string>& paths);

// One file of any ending; throws Error when it does not exist.
InputFile describe_input(const fs::path& path);

// Gives the documents of `files` one after the other, none of white space alone. One of a .txt file
// has no blank lines before it and no white space behind, which belong to the file's layout; one of
// a .jsonl line is the text as it stands there. "\r\n" in a .txt file counts as "\n"; a byte order
// mark is dropped. Throws Error, naming the file and byte
// offset or line, for what is not text (NUL bytes), not UTF-8, damaged compression, or not JSON.
// Offsets count uncompressed bytes. Not thread-safe.
class DocumentSource {
 public:
  DocumentSource(std::vector<InputFile> files, TextOptions options);
  ~DocumentSource();
  DocumentSource(const DocumentSource&) = delete;
  DocumentSource& operator=(const DocumentSource&) = delete;

  // The next document; nothing at the end. An input file without any document is an Error, and so,
  // at the end, are files of the same text.
  std::optional<std::string> next();

  // Progress in bytes of the files as they lie on disk.
  uint64_t bytes_read() const;
  uint64_t total_bytes() const;
  uint64_t replaced() const;    // invalid pieces replaced so far
  uint64_t text_bytes() const;  // bytes of the documents given out so far
  const SkippedLines& skipped() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace thinwire::data

// Lines of a text file that may be compressed, checked: no NUL bytes, and valid UTF-8 or repaired.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "thinwire/base/digest.h"

namespace thinwire::data {

// The uncompressed bytes of a file: plain, gzip (.gz, also of several members), bzip2 (.bz2,
// likewise) or Zstandard (.zst).
class ByteStream {
 public:
  // Throws Error when the file cannot be opened.
  static std::unique_ptr<ByteStream> open(const std::filesystem::path& path);

  virtual ~ByteStream() = default;
  // Fills `out`, or less of it near the end of the file, and returns the number of bytes; 0 at the
  // end. Throws Error naming the file when it cannot be read, is not compressed as its name says,
  // is damaged, or ends too early.
  virtual size_t read(std::span<char> out) = 0;
  // Bytes of the file itself, as stored, read so far.
  virtual uint64_t consumed() const = 0;
};

// A line without its line break, or a piece of a line that is longer than the reader's limit.
struct Line {
  std::string text;
  uint64_t number = 0;  // counted from 1
  bool begins = true;   // the piece begins the line
  bool ends = true;     // and ends it
  std::string fault;    // why it is not text, if the reader marks faults; else empty
};

class LineReader {
 public:
  // longest: bytes of a piece, at least 4. replace_invalid: as in TextOptions. mark_faults: return
  // lines that are not text, with their fault.
  LineReader(std::filesystem::path path, size_t longest, bool replace_invalid,
             bool mark_faults = false);

  // False at the end of the file. For anything that is not text it throws Error naming the file and
  // the byte (counted uncompressed), unless the reader marks faults.
  bool next(Line& line);
  uint64_t consumed() const { return stream_->consumed(); }
  uint64_t replaced() const { return replaced_; }
  // Digest of the uncompressed bytes read so far.
  uint64_t digest() const { return hash_.value(); }

 private:
  void fill();
  void take(size_t bytes, bool ends, Line& line);
  void skip_line_break();
  void refuse_binary(size_t from) const;
  [[noreturn]] void refuse(size_t position) const;

  std::filesystem::path path_;
  size_t longest_;
  bool replace_invalid_;
  bool mark_faults_;
  std::unique_ptr<ByteStream> stream_;
  StreamHash hash_;
  std::string buffer_;
  size_t at_ = 0;        // where the unread part of buffer_ begins
  size_t searched_ = 0;  // buffer_ is known to hold no unread line break before this
  uint64_t offset_ = 0;  // of buffer_[at_] in the text
  uint64_t number_ = 1;
  bool inside_line_ = false;
  bool at_end_ = false;
  uint64_t replaced_ = 0;
};

}  // namespace thinwire::data

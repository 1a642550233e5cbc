// The uncompressed bytes of a file: plain, gzip (.gz, also of several members), bzip2 (.bz2,
// likewise) or Zstandard (.zst).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace thinwire::data {

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

}  // namespace thinwire::data

// The uncompressed bytes of a file: plain, gzip (.gz, also of several members) or Zstandard (.zst).
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
  // Fills out, or its beginning at the end of the file; 0 there. Throws Error naming the file when
  // it cannot be read, is not compressed as its name says, is damaged, or ends too early.
  virtual size_t read(std::span<char> out) = 0;
  // Bytes of the file itself used so far.
  virtual uint64_t consumed() const = 0;
};

}  // namespace thinwire::data

// A folder that others can write to as well. A name is one component of a path, and symbolic links
// below the folder are never followed, so nobody can make this program read or write elsewhere.
// Files are written under another name, synced and renamed, so that nobody sees half of one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"

namespace thinwire::transport {

// Failures of all functions: kLostPeer, it is not there or is not what it should be, e.g. a link;
// kCorruptPayload, longer than allowed; kRefused, no space or no permission; kDeadline, any other
// error of the file system, which may be over later.
class SharedFolder {
 public:
  // Follows links: the path is the user's own.
  static Result<SharedFolder> open(const fs::path& path);
  ~SharedFolder();
  SharedFolder(SharedFolder&& other) noexcept;
  SharedFolder& operator=(SharedFolder&& other) noexcept;

  Result<SharedFolder> folder(const std::string& name) const;
  // The same; creates it if it is not there.
  Result<SharedFolder> make_folder(const std::string& name) const;

  // Of everything in it, sorted.
  Result<std::vector<std::string>> names() const;
  // Whether there is a regular file of this name.
  bool has(const std::string& name) const;
  Result<Bytes> read(const std::string& name, size_t max_bytes) const;
  // Replaces what is there. Once it succeeds, the file is on disk.
  Result<void> write(const std::string& name, std::span<const uint8_t> bytes) const;
  // It is no failure if it is not there.
  Result<void> remove(const std::string& name) const;

 private:
  explicit SharedFolder(int handle) : handle_(handle) {}
  Result<void> write_new(const std::string& name, std::span<const uint8_t> bytes) const;

  int handle_ = -1;
};

// What the names of files end with that are being written.
inline constexpr const char* kPartialSuffix = ".partial";

}  // namespace thinwire::transport

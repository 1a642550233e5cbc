// Files that are never half-written. Everything Thinwire writes goes to a temporary name beside its
// target, is synced, and is then renamed. All functions throw Error naming the path and the
// system's reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/bytes.h"

namespace thinwire {

namespace fs = std::filesystem;

// Reading refuses, and names, what stands for a file elsewhere: a link to nothing, and a git-lfs
// pointer, the few lines that a clone without git-lfs has in place of a large file.
std::string read_text_file(const fs::path& path);

// Whether there is a file or folder of this name; a link to nothing is refused.
bool file_exists(const fs::path& path);

// Whether there is a file of this name that is no folder; a link to nothing is refused.
bool is_file(const fs::path& path);

// The path, absolute, or if nothing is there the nearest folder above it that exists.
fs::path nearest_existing(const fs::path& path);

// What a user may still write to the disk where `path` is or would be; nothing if that is unknown.
std::optional<uint64_t> free_disk_bytes(const fs::path& path);

// A file being written under a temporary name (path + ".partial"). commit() gives it its final
// name; destruction without commit removes it. A device or a pipe of that name is refused.
class AtomicFile {
 public:
  explicit AtomicFile(fs::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const uint8_t> bytes);
  void write(std::string_view text) { write(as_bytes(text)); }
  // Overwrites bytes already written, e.g. a header whose counts are known only at the end.
  void write_at(uint64_t offset, std::span<const uint8_t> bytes);
  uint64_t size() const { return size_; }
  // Syncs, renames, syncs the folder.
  void commit();

 private:
  void flush();

  fs::path path_;
  fs::path partial_;
  int file_ = -1;
  bool committed_ = false;
  uint64_t size_ = 0;
  Bytes buffer_;
};

void write_file(const fs::path& path, std::string_view text);

// Syncs a folder's entries to disk.
void sync_directory(const fs::path& path);

// Makes `to` appear with the contents of the folder `from` by one rename, replacing nothing: throws
// if `to` exists.
void publish_directory(const fs::path& from, const fs::path& to);

// A file mapped read-only; stand-ins are refused as by read_text_file.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  // Says that a part of them was read for the last time for now: its whole pages no longer count as
  // this process's memory. Reading it again gives the same bytes.
  void release(std::span<const uint8_t> part) const;

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// The current and the highest resident memory of this process, in bytes.
uint64_t resident_memory_bytes();
uint64_t peak_memory_bytes();

// A lock that at most one process holds, and that is released when the process ends in any way.
enum class Inherited : bool {
  kNo,
  kYes,  // child processes hold it, too: it is released once they have also ended
};

class FolderLock {
 public:
  // Waits up to `timeout_s` for another holder to release it; then throws Error with the message
  // `held`. Also throws Error if the file cannot be created.
  FolderLock(const fs::path& file, double timeout_s, const std::string& held,
             Inherited inherited = Inherited::kNo);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_ = -1;
};

// While one exists, what its thread writes is not synced: files that nobody reads after this
// process has ended. A thread has one at a time.
class PassingFiles {
 public:
  PassingFiles();
  ~PassingFiles();
  PassingFiles(const PassingFiles&) = delete;
  PassingFiles& operator=(const PassingFiles&) = delete;
};

}  // namespace thinwire

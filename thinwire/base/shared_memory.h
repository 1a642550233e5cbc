// Memory that another process may map as well: it has a file descriptor, but no name.
#pragma once

#include <cstddef>
#include <span>

namespace thinwire {

// Zeroed, page-aligned, and freed once no process has it mapped or open. Used by any thread.
class SharedMemory {
 public:
  // At least one byte. Throws Error with the system's reason.
  explicit SharedMemory(size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }
  // For handing it to the other process; children do not inherit it.
  int file() const { return file_; }

 private:
  size_t size_;
  int file_ = -1;
  std::byte* data_ = nullptr;
};

}  // namespace thinwire

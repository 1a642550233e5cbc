#include "thinwire/base/shared_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"

namespace thinwire {

SharedMemory::SharedMemory(size_t bytes)
    : size_(bytes), file_(memfd_create("thinwire", MFD_CLOEXEC)) {
  void* mapped = MAP_FAILED;
  if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(bytes)) == 0) {
    mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  }
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    if (file_ >= 0) close(file_);
    throw Error(fmt::format("cannot make {} of shared memory: {}",
                            format_bytes(static_cast<double>(bytes)), std::strerror(reason)));
  }
  data_ = static_cast<std::byte*>(mapped);
  madvise(mapped, bytes, MADV_HUGEPAGE);  // as tensors' other memory; not everywhere possible
}

SharedMemory::~SharedMemory() {
  munmap(data_, size_);
  close(file_);
}

}  // namespace thinwire

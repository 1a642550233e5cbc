#include "thinwire/tensor/storage/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace thinwire::tensor {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = 2ull << 20;

}  // namespace

void* allocate_aligned(size_t bytes, Offload* offload) {
  if (bytes == 0) return nullptr;
  if (offload != nullptr) return offload->allocate(bytes);
  const bool huge = bytes >= 4 * kHugePage;
  const size_t alignment = huge ? kHugePage : kLine;
  void* const data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (data == nullptr) throw std::bad_alloc();
  if (huge) madvise(data, bytes, MADV_HUGEPAGE);  // only a hint; results do not depend on it
  return data;
}

}  // namespace thinwire::tensor

#include "thinwire/tensor/storage/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/tensor/kernels/number_formats.h"
#include "thinwire/tensor/storage/aligned_buffer.h"

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

void TwoSided::mirror_on(const DevicePlace& device, std::span<std::byte> host) {
  if (mirror_ != nullptr) return;
  mirror_ = make_mirror(device, host);
  place_ = device;
  bytes_ = host.size();
  newest_ = Side::kHost;
}

void TwoSided::use(Side side, bool writes) const {
  if (newest_ == side) return;
  if (newest_ != Side::kBoth) {
    side == Side::kHost ? mirror_->download(0, bytes_) : mirror_->upload();
    newest_ = Side::kBoth;
  }
  if (writes) newest_ = side;
}

void TwoSided::read_host(size_t begin, size_t bytes) const {
  if (newest_ == Side::kDevice) mirror_->download(begin, bytes);
}

void TwoSided::clear_device() {
  mirror_->clear();
  newest_ = Side::kDevice;
}

namespace {

constexpr int64_t kDrawGrain = 4096;
constexpr int64_t kWalkedElements = 1 << 22;  // of a walk over all values, at a time

}  // namespace

Arena::Arena(const Layout& layout, WeightFormat format, std::shared_ptr<Offload> offload)
    : layout_(&layout), format_(format), offload_(std::move(offload)) {
  if (is_encoded(format)) {
    packed_.emplace(layout, format, offload_);
    return;
  }
  const int64_t count = std::max(layout.total(), kArenaAlignment);
  if (format == WeightFormat::kBf16) {
    bf16_ = AlignedBuffer<Bf16>(count, offload_);
    if (!offload_) std::fill_n(bf16_.data(), count, Bf16());
    return;
  }
  const auto bytes = static_cast<size_t>(count) * sizeof(float);
  data_ = {static_cast<float*>(allocate_aligned(bytes, offload_.get())), FreeAligned{offload_}};
  if (!offload_) std::fill_n(data_.get(), count, 0.0f);
}

Arena::Arena(const Layout& layout, std::span<float> memory)
    : layout_(&layout), format_(WeightFormat::kF32) {
  constexpr size_t kArenaBytes = kArenaAlignment * sizeof(float);
  const bool aligned = reinterpret_cast<uintptr_t>(memory.data()) % kArenaBytes == 0;
  if (std::ssize(memory) < layout.total() || !aligned) {
    throw UsageError(fmt::format("{} values aligned to {} bytes are needed, got {} {}",
                                 layout.total(), kArenaBytes, memory.size(),
                                 aligned ? "aligned ones" : "that are not aligned"));
  }
  data_ = {memory.data(), FreeAligned{.foreign = true}};
  std::ranges::fill(memory.first(static_cast<size_t>(layout.total())), 0.0f);
}

std::span<const uint8_t> Arena::memory(int64_t offset, int64_t count) const {
  if (packed_) return packed_->memory(offset, count);
  const auto values = static_cast<size_t>(count);
  if (format_ == WeightFormat::kBf16) return as_bytes(std::span(bf16() + offset, values));
  return as_bytes(std::span<const float>(data_.get() + offset, values));
}

void Arena::release(int64_t offset, int64_t count) const {
  if (!offload_) return;
  const std::span<const uint8_t> bytes = memory(offset, count);
  offload_->release(bytes.data(), bytes.size());
}

void Arena::touch(int64_t offset, int64_t count, bool writes) const {
  if (!offload_) return;
  const std::span<const uint8_t> bytes = memory(offset, count);
  offload_->touch(bytes.data(), bytes.size(), writes);
}

const Bf16* Arena::bf16_at(int64_t offset) const {
  return packed_ ? packed_->bf16_at(offset) : bf16() + offset;
}

std::span<const uint8_t> Arena::bytes() const {
  if (packed_) return packed_->bytes();
  if (format_ == WeightFormat::kF32) return as_bytes(all());
  return as_bytes(std::span(bf16(), static_cast<size_t>(layout_->total())));
}

void Arena::set_bytes(size_t begin, std::span<const uint8_t> values) {
  assert(begin + values.size() <= std::as_const(*this).bytes().size());
  uint8_t* memory = nullptr;
  if (packed_) {
    memory = packed_->bytes().data();
  } else if (format_ == WeightFormat::kF32) {
    memory = reinterpret_cast<uint8_t*>(all().data());
  } else {
    memory = reinterpret_cast<uint8_t*>(bf16());
  }
  std::ranges::copy(values, memory + begin);
  if (offload_) offload_->release(memory + begin, values.size());
}

void Arena::fill_tensor(size_t index, const std::function<void(std::span<float>)>& fill) {
  touch_tensor(index, true);
  if (format_ == WeightFormat::kF32) return fill(tensor(index));
  std::vector<float> values(static_cast<size_t>(layout_->specs()[index].count()));
  fill(values);
  if (packed_) return packed_->set(index, values);
  round_to_nearest(values.data(), static_cast<int64_t>(values.size()),
                   bf16() + layout_->offset(index));
}

void Arena::assign(const Arena& values) {
  assert(values.layout().total() == layout_->total());
  if (packed_ || values.packed_) return assign_tensors(values);
  for (int64_t at = 0; at < layout_->total(); at += kWalkedElements) {
    const int64_t count = std::min(kWalkedElements, layout_->total() - at);
    if (format_ == WeightFormat::kF32) {
      values.read(at, all().subspan(at, count));
    } else if (values.format() == format_) {
      std::copy_n(values.bf16() + at, count, bf16() + at);
    } else {
      round_to_nearest(values.all().data() + at, count, bf16() + at);
    }
    release(at, count);
    values.release(at, count);
  }
}

void Arena::assign_tensors(const Arena& values) {
  for (size_t i = 0; i < layout_->size(); ++i) {
    values.touch_tensor(i, false);
    if (packed_ && values.format_ == format_) {
      touch_tensor(i, true);
      packed_->copy(i, *values.packed_);
    } else {
      fill_tensor(i, [&](std::span<float> to) { values.read(layout_->offset(i), to); });
    }
  }
}

void Arena::read(int64_t begin, std::span<float> to) const {
  if (packed_) return packed_->read(begin, to);
  if (format_ == WeightFormat::kF32) {
    std::copy_n(all().begin() + begin, to.size(), to.begin());
  } else {
    widen(bf16() + begin, static_cast<int64_t>(to.size()), to.data());
  }
}

std::span<const float> Arena::range(int64_t begin, int64_t count) const {
  const auto values = static_cast<size_t>(count);
  sides_.read_host(static_cast<size_t>(begin) * sizeof(float), values * sizeof(float));
  return {data_.get() + begin, values};
}

std::span<float> Arena::tensor(size_t index) {
  return all().subspan(layout_->offset(index), layout_->specs()[index].count());
}

std::span<const float> Arena::tensor(size_t index) const {
  return all().subspan(layout_->offset(index), layout_->specs()[index].count());
}

void Arena::mirror_on(const DevicePlace& device) {
  const std::span values(data_.get(), static_cast<size_t>(layout_->total()));
  sides_.mirror_on(device, std::as_writable_bytes(values));
}

float* Arena::device_values() {
  invalidate_rounded();
  return static_cast<float*>(sides_.use_device(true));
}

const float* Arena::device_values() const {
  return static_cast<const float*>(sides_.use_device(false));
}

void Arena::keep_rounded(Bf16* copy, std::vector<bool> kept) {
  rounded_ = copy;
  rounded_kept_ = std::move(kept);
  rounded_current_ = false;
}

void Arena::clear() {
  invalidate_rounded();
  if (device() != nullptr) return sides_.clear_device();
  std::fill_n(data_.get(), layout_->total(), 0.0f);
}

TensorView Arena::view(size_t index) {
  return {tensor(index).data(), layout_->specs()[index].shape, DType::kF32, Device::kCpu};
}

void draw_normal(Arena& arena, size_t index, uint64_t seed, double mean, double deviation,
                 ThreadPool& threads) {
  const Rng first(derive_seed(seed, arena.layout().specs()[index].name), 0);
  const auto draw = [&](std::span<float> values, int64_t begin, int64_t end) {
    Rng rng = first;
    rng.skip_normals(static_cast<uint64_t>(begin));
    for (float& value : values.subspan(begin, end - begin)) {
      value = static_cast<float>(mean + (deviation == 0 ? 0 : deviation * rng.normal()));
    }
  };
  arena.fill_tensor(index, [&](std::span<float> values) {
    threads.for_ranges(static_cast<int64_t>(values.size()), kDrawGrain,
                       [&](int64_t begin, int64_t end, int) { draw(values, begin, end); });
  });
}

}  // namespace thinwire::tensor

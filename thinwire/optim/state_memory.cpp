#include "thinwire/optim/state_memory.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/error.h"

namespace thinwire::optim {

void throw_not_finite() {
  throw Error(
      "optimizer state is no longer finite; lower optim.lr or raise schedule.warmup; earlier "
      "checkpoints are kept");
}

float* StateValues::read(int64_t at, int64_t count, float* scratch) const {
  assert(at % kStateBlock == 0);
  switch (format_) {
    case StateFormat::kF32:
      return exact_ + at;
    case StateFormat::kBf16:
      tensor::widen(bf16_ + at, count, scratch);
      break;
    case StateFormat::k8Bit:
      tensor::decode_blocks(code_, codes_ + at, exponents_ + at / kStateBlock, count, scratch);
      break;
  }
  return scratch;
}

void StateValues::keep(int64_t at, int64_t count, const float* values, uint64_t step) const {
  if (is_exact()) return;
  const uint64_t key =
      tensor::rounding_key(randomness_.seed, randomness_.kind, randomness_.tensor, step);
  if (format_ == StateFormat::kBf16) {
    return tensor::round_stochastically(values, count, key, at, bf16_ + at);
  }
  if (tensor::encode_blocks(code_, values, count, key, at, codes_ + at,
                            exponents_ + at / kStateBlock)) {
    return;
  }
  throw_not_finite();
}

std::vector<float> StateValues::read_all(ThreadPool& threads) const {
  std::vector<float> values(static_cast<size_t>(size_));
  threads.for_ranges(size_, kPiece, [&](int64_t begin, int64_t end, int) {
    float* const to = values.data() + begin;
    const float* const from = read(begin, end - begin, to);
    if (from != to) std::copy_n(from, end - begin, to);
  });
  return values;
}

void StateValues::keep_all(std::span<const float> values, uint64_t step,
                           ThreadPool& threads) const {
  threads.for_ranges(size_, kPiece, [&](int64_t begin, int64_t end, int) {
    if (is_exact()) {
      std::copy_n(values.data() + begin, end - begin, exact_ + begin);
    } else {
      keep(begin, end - begin, values.data() + begin, step);
    }
  });
}

namespace {

constexpr std::array<int64_t, 3> kBytes = {4, 2, 1};  // of a value, by format

// Elements of a piece with the gap after it.
int64_t padded(StateFormat format, int64_t count) {
  return format == StateFormat::k8Bit ? kStateBlock * state_blocks(count) : padded_elements(count);
}

tensor::AlignedBuffer<uint8_t> zeros(int64_t bytes, const std::shared_ptr<Offload>& offload) {
  tensor::AlignedBuffer<uint8_t> buffer(bytes, offload);
  if (bytes > 0 && !offload) std::memset(buffer.data(), 0, buffer.bytes());
  return buffer;
}

std::span<uint8_t> bytes_of(tensor::AlignedBuffer<uint8_t>& buffer) {
  return {buffer.data(), buffer.bytes()};
}

}  // namespace

StateMemory::StateMemory(const method::OptimizerOptions& options, const tensor::Layout& params)
    : seed_(options.seed), offload_(options.offload) {
  for (size_t tensor = 0; tensor < params.size(); ++tensor) {
    const TensorSpec& spec = params.specs()[tensor];
    std::vector<Place>& places = places_.emplace_back();
    for (const method::StatePiece& piece : options.spec->state(options, spec)) {
      auto group = std::ranges::find(groups_, piece.name, &Group::name);
      if (group == groups_.end()) {
        const StateFormat format = format_of(options, piece);
        group = groups_.insert(group, {piece.name, piece.agreement, piece.kind, format});
      }
      const int64_t count = options.updates(tensor) ? element_count(piece.shape) : 0;
      places.push_back({static_cast<size_t>(group - groups_.begin()), group->size, count});
      group->size += padded(group->format, count);
    }
  }
  for (Group& group : groups_) allocate(group);
}

void StateMemory::allocate(Group& group) const {
  group.values = zeros(group.size * kBytes[static_cast<size_t>(group.format)], offload_);
  if (group.format == StateFormat::k8Bit) {
    group.exponents = zeros(group.size / kStateBlock, offload_);
  }
}

// Bases are mostly read.
void StateMemory::touch(const Group& group, int64_t offset, int64_t count) const {
  if (!offload_) return;
  const bool writes = group.kind != method::StateKind::kBasis;
  const int64_t bytes = kBytes[static_cast<size_t>(group.format)];
  offload_->touch(group.values.data() + offset * bytes, static_cast<size_t>(count * bytes), writes);
  if (group.format != StateFormat::k8Bit) return;
  offload_->touch(group.exponents.data() + offset / kStateBlock,
                  static_cast<size_t>(state_blocks(count)), writes);
}

StateValues StateMemory::piece(size_t tensor, size_t index) {
  return piece(tensor, index, 0, places_[tensor][index].size);
}

StateValues StateMemory::piece(size_t tensor, size_t index, int64_t begin, int64_t count) {
  const Place& place = places_[tensor][index];
  Group& group = groups_[place.group];
  use_host(group);
  touch(group, place.offset + begin, count);
  const auto size = static_cast<size_t>(place.size);
  // Weights have kind 0.
  const StateValues::Randomness randomness = {seed_, index + 1, tensor};
  switch (group.format) {
    case StateFormat::kF32:
      break;
    case StateFormat::kBf16:
      return {std::span(reinterpret_cast<Bf16*>(group.values.data()) + place.offset, size),
              randomness};
    case StateFormat::k8Bit:
      return {code_of(group), place.size, group.values.data() + place.offset,
              group.exponents.data() + place.offset / kStateBlock, randomness};
  }
  return std::span(reinterpret_cast<float*>(group.values.data()) + place.offset, size);
}

void StateMemory::use_host(const Group& group) {
  group.sides.use_host(true);
  group.exponent_sides.use_host(true);
}

tensor::BlockCode StateMemory::code_of(const Group& group) {
  return group.kind == method::StateKind::kSquares ? tensor::BlockCode::kMagnitude
                                                   : tensor::BlockCode::kSigned;
}

void StateMemory::mirror_on(const tensor::DevicePlace& device) {
  for (Group& group : groups_) {
    group.sides.mirror_on(device, std::as_writable_bytes(bytes_of(group.values)));
    if (group.format != StateFormat::k8Bit) continue;
    group.exponent_sides.mirror_on(device, std::as_writable_bytes(bytes_of(group.exponents)));
  }
}

DevicePiece StateMemory::device_piece(size_t tensor, size_t index, uint64_t step) {
  const Place& place = places_[tensor][index];
  const Group& group = groups_[place.group];
  void* const values = group.sides.use_device(true);
  DevicePiece piece;
  piece.coded.key = tensor::rounding_key(seed_, index + 1, tensor, step);
  piece.coded.code = code_of(group);
  switch (group.format) {
    case StateFormat::kF32:
      piece.exact = static_cast<float*>(values) + place.offset;
      break;
    case StateFormat::kBf16:
      piece.coded.bf16 = static_cast<Bf16*>(values) + place.offset;
      break;
    case StateFormat::k8Bit:
      piece.coded.codes = static_cast<uint8_t*>(values) + place.offset;
      piece.coded.exponents =
          static_cast<uint8_t*>(group.exponent_sides.use_device(true)) + place.offset / kStateBlock;
      break;
  }
  return piece;
}

std::vector<OptimizerState> StateMemory::all() {
  std::vector<OptimizerState> state;
  for (Group& group : groups_) {
    use_host(group);
    const std::string name(group.name);
    const std::span<uint8_t> bytes = bytes_of(group.values);
    switch (group.format) {
      case StateFormat::kF32:
        state.emplace_back(
            name, std::span(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)),
            group.agreement);
        break;
      case StateFormat::kBf16:
        state.emplace_back(name, DType::kBf16, bytes, group.agreement);
        break;
      case StateFormat::k8Bit:
        state.emplace_back(name, DType::kU8, bytes, group.agreement);
        state.emplace_back(name + ".exponents", DType::kU8, bytes_of(group.exponents),
                           group.agreement);
        break;
    }
  }
  return state;
}

std::vector<std::span<uint8_t>> StateMemory::memory_of(size_t tensor) {
  std::vector<std::span<uint8_t>> all;
  for (const Place& place : places_[tensor]) {
    Group& group = groups_[place.group];
    use_host(group);
    const auto part = [&](tensor::AlignedBuffer<uint8_t>& buffer, int64_t begin, int64_t count) {
      all.push_back(
          bytes_of(buffer).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)));
    };
    const int64_t width = kBytes[static_cast<size_t>(group.format)];
    part(group.values, place.offset * width, padded(group.format, place.size) * width);
    if (group.format != StateFormat::k8Bit) continue;
    part(group.exponents, place.offset / kStateBlock, state_blocks(place.size));
  }
  return all;
}

size_t StateMemory::bytes() const {
  size_t bytes = 0;
  for (const Group& group : groups_) bytes += group.values.bytes() + group.exponents.bytes();
  return bytes;
}

void StateMemory::clear() {
  for (Group& group : groups_) {
    use_host(group);
    std::ranges::fill(bytes_of(group.values), uint8_t{0});
    std::ranges::fill(bytes_of(group.exponents), uint8_t{0});
    release_offloaded(group.values.data(), group.values.bytes());
  }
}

}  // namespace thinwire::optim

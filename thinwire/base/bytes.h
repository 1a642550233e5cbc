// Little-endian reading and writing of wire and file formats. A ByteReader never reads past its
// end: after the first short read ok() stays false and every read returns zero, so a decoder need
// check only once, after a group of reads.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace thinwire {

static_assert(std::endian::native == std::endian::little, "formats are little-endian");

using Bytes = std::vector<uint8_t>;

inline std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

template <typename T>
std::span<const uint8_t> as_bytes(std::span<const T> values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

class ByteWriter {
 public:
  explicit ByteWriter(Bytes& out) : out_(out) {}

  template <typename T>
  void put(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put_bytes({reinterpret_cast<const uint8_t*>(&value), sizeof(T)});
  }
  void put_bytes(std::span<const uint8_t> bytes) {
    if (bytes.empty()) return;
    const size_t at = out_.size();
    out_.resize(at + bytes.size());
    std::memcpy(out_.data() + at, bytes.data(), bytes.size());
  }
  // Length (u32), then the characters.
  void put_string(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    put_bytes(as_bytes(text));
  }

 private:
  Bytes& out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> in) : in_(in) {}

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const auto raw = get_bytes(sizeof(T));
    if (ok_) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }
  // A view into the input; empty if fewer bytes are left.
  std::span<const uint8_t> get_bytes(size_t size) {
    if (!ok_ || size > in_.size() - at_) {
      ok_ = false;
      return {};
    }
    at_ += size;
    return in_.subspan(at_ - size, size);
  }
  std::string get_string() {
    const auto raw = get_bytes(get<uint32_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && at_ == in_.size(); }
  size_t remaining() const { return ok_ ? in_.size() - at_ : 0; }

 private:
  std::span<const uint8_t> in_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace thinwire

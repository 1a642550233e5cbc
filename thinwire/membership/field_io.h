// Encodes and decodes records and statements by one description of their fields for both
// directions: a template `fields(Io& io, T& value)`, for which `Io` is a FieldWriter or a
// FieldReader. docs/formats.md, "Ledger records".
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/membership/record.h"

namespace thinwire::membership {

class FieldWriter {
 public:
  explicit FieldWriter(Bytes& out) : writer_(out) {}

  template <typename T>
  void field(T& value) {
    writer_.put(value);
  }
  void bytes(const Bytes& value) { writer_.put_bytes(value); }
  void flag(bool value) { writer_.put(static_cast<uint8_t>(value ? 1 : 0)); }
  template <typename T>
  bool present(const std::optional<T>& value) {
    flag(value.has_value());
    return value.has_value();
  }
  template <typename T>
  void count(std::vector<T>& items, size_t /*min_bytes*/) {
    writer_.put(static_cast<uint32_t>(items.size()));
  }
  void require([[maybe_unused]] bool holds, std::string_view /*what*/) { assert(holds); }
  bool ok() const { return true; }

 private:
  ByteWriter writer_;
};

class FieldReader {
 public:
  explicit FieldReader(std::span<const uint8_t> in) : reader_(in) {}

  template <typename T>
  void field(T& value) {
    value = reader_.get<T>();
  }
  void bytes(Bytes& value) { std::ranges::copy(reader_.get_bytes(value.size()), value.begin()); }
  void flag(bool& value) {
    const auto byte = reader_.get<uint8_t>();
    require(byte <= 1, "a flag is neither 0 nor 1");
    value = byte == 1;
  }
  template <typename T>
  bool present(std::optional<T>& value) {
    bool has = false;
    flag(has);
    if (has) value.emplace();
    return has;
  }
  // Never more items than the bytes that are left can hold.
  template <typename T>
  void count(std::vector<T>& items, size_t min_bytes) {
    const auto size = reader_.get<uint32_t>();
    require(size <= reader_.remaining() / min_bytes,
            "a list is longer than the record or statement");
    items.clear();
    if (ok()) items.resize(size);
  }
  void require(bool holds, std::string_view what) {
    if (!holds && problem_.empty()) problem_ = what;
  }
  bool ok() const { return problem_.empty() && reader_.ok(); }
  std::string_view problem() const {
    if (!problem_.empty()) return problem_;
    return reader_.at_end() ? "" : reader_.ok() ? "bytes follow its end" : "it is truncated";
  }

 private:
  ByteReader reader_;
  std::string_view problem_;
};

// --- fields of records and statements alike

template <typename Io>
void member_field(Io& io, int& member) {
  io.field(member);
  io.require(member >= 0, "a member's id is below 0");
}

template <typename Io>
void fields(Io& io, Snapshot& snapshot) {
  member_field(io, snapshot.member);
  io.field(snapshot.sequence);
  io.field(snapshot.content.bytes);
  io.field(snapshot.bytes);
}

template <typename Io>
void fields(Io& io, AgreedDigest& agreed) {
  io.field(agreed.round);
  io.field(agreed.digest);
}

// Makes `value` the default of alternative `index`.
template <typename Variant, size_t... kIndex>
void make_alternative(Variant& value, size_t index, std::index_sequence<kIndex...>) {
  ((index == kIndex ? void(value.template emplace<kIndex>()) : void()), ...);
}

// Which alternative it is: a byte, its index plus 1. Reading makes it that alternative.
template <typename Io, typename... Kinds>
void kind_field(Io& io, std::variant<Kinds...>& value, std::string_view unknown) {
  auto kind = static_cast<uint8_t>(value.index() + 1);
  io.field(kind);
  io.require(kind >= 1 && kind <= sizeof...(Kinds), unknown);
  if (!io.ok() || value.index() + 1 == kind) return;
  make_alternative(value, kind - 1u, std::index_sequence_for<Kinds...>());
}

}  // namespace thinwire::membership

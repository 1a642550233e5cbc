#include "thinwire/tensor/files/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/half.h"
#include "thinwire/base/json.h"
#include "thinwire/base/offload.h"

namespace thinwire::tensor {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr int kMaxHeaderDepth = 3;                 // header, tensor, shape or byte range
constexpr size_t kPieceValues = size_t{1} << 16;
constexpr size_t kPieceBytes = size_t{1} << 24;
constexpr const char* kMetadataKey = "__metadata__";

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TypeName, 6> kTypes{{{"F32", DType::kF32},
                                          {"BF16", DType::kBf16},
                                          {"F16", DType::kF16},
                                          {"I32", DType::kI32},
                                          {"I64", DType::kI64},
                                          {"U8", DType::kU8}}};

std::string_view type_name(DType dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](auto& t) { return t.dtype == dtype; })
      ->name;
}

[[noreturn]] void throw_bad(const fs::path& path, std::string_view what) {
  throw Error(fmt::format("cannot read {}: {}", path.string(), what));
}

// Deep nesting would cost many times the header's size in memory, and no header needs it.
Json parse_header(const fs::path& path, std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (is_deep_json(text, kMaxHeaderDepth)) throw_bad(path, "its header is nested too deeply");
  Json header = try_parse_json<Json>(text);
  if (header.is_object()) return header;
  throw_bad(path, "not a safetensors file (its header is not a JSON object)");
}

std::span<const uint8_t> header_text(const fs::path& path, std::span<const uint8_t> file) {
  ByteReader in(file);
  const auto length = in.get<uint64_t>();
  if (!in.ok()) throw_bad(path, "not a safetensors file (shorter than its 8-byte header length)");
  if (length > kMaxHeaderBytes) {
    throw_bad(path, fmt::format("not a safetensors file (header of {} bytes; at most {} allowed)",
                                length, kMaxHeaderBytes));
  }
  if (length > in.remaining()) {
    throw_bad(path, fmt::format("truncated (a header of {} bytes, but {} bytes follow)", length,
                                in.remaining()));
  }
  return in.get_bytes(length);
}

DType parse_type(const fs::path& path, const std::string& name, const Json& value) {
  if (!value.is_string()) throw_bad(path, fmt::format("tensor {}: dtype is not a string", name));
  const auto& text = value.get_ref<const std::string&>();
  for (const TypeName& type : kTypes) {
    if (type.name == text) return type.dtype;
  }
  throw_bad(path, fmt::format("tensor {}: dtype {} is not one of F32, BF16, F16, I32, I64, U8",
                              name, text));
}

Shape parse_shape(const fs::path& path, const std::string& name, const Json& value) {
  if (!value.is_array()) throw_bad(path, fmt::format("tensor {}: shape is not a list", name));
  Shape shape;
  int64_t count = 1;
  for (const Json& side : value) {
    constexpr uint64_t kMaxCount = uint64_t{1} << 56;  // its bytes fit an int64_t
    const bool valid = side.is_number_unsigned() && side.get<uint64_t>() <= kMaxCount;
    if (!valid || __builtin_mul_overflow(count, side.get<int64_t>(), &count) ||
        count > static_cast<int64_t>(kMaxCount)) {
      throw_bad(path, fmt::format("tensor {}: its shape is impossible: {}; expected whole numbers "
                                  ">= 0 whose product is <= 2^56",
                                  name, print_json(value)));
    }
    shape.push_back(side.get<int64_t>());
  }
  return shape;
}

struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

ByteRange parse_range(const fs::path& path, const std::string& name, const Json& value) {
  const bool pair = value.is_array() && value.size() == 2 && value[0].is_number_unsigned() &&
                    value[1].is_number_unsigned();
  if (!pair) throw_bad(path, fmt::format("tensor {}: data_offsets is not [begin, end]", name));
  return {value[0].get<uint64_t>(), value[1].get<uint64_t>()};
}

struct Located {
  std::string name;
  TensorView view;
  ByteRange range;
};

Located parse_tensor(const fs::path& path, const std::string& name, const Json& value) {
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.is_object() || !value.contains(key)) {
      throw_bad(path, fmt::format("tensor {}: {} is missing", name, key));
    }
  }
  Located tensor{name, {}, parse_range(path, name, value["data_offsets"])};
  tensor.view.dtype = parse_type(path, name, value["dtype"]);
  tensor.view.shape = parse_shape(path, name, value["shape"]);
  const auto [begin, end] = tensor.range;
  if (begin > end || end - begin != static_cast<uint64_t>(tensor.view.bytes())) {
    throw_bad(path,
              fmt::format("tensor {}: bytes {} to {} do not hold {} of shape [{}]", name, begin,
                          end, type_name(tensor.view.dtype), fmt::join(tensor.view.shape, ", ")));
  }
  return tensor;
}

Metadata parse_metadata(const fs::path& path, const Json& value) {
  Metadata metadata;
  if (!value.is_object()) throw_bad(path, "__metadata__ is not an object of strings");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) throw_bad(path, fmt::format("__metadata__.{} is not a string", key));
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

// The ranges, in order, must be contiguous and cover the data.
void check_cover(const fs::path& path, std::vector<Located>& tensors, uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const Located& a, const Located& b) {
    return std::tie(a.range.begin, a.range.end) < std::tie(b.range.begin, b.range.end);
  });
  uint64_t at = 0;
  for (const Located& tensor : tensors) {
    if (tensor.range.begin != at) {
      throw_bad(path, fmt::format("tensor {} begins at byte {}, where {} is expected", tensor.name,
                                  tensor.range.begin, at));
    }
    at = tensor.range.end;
  }
  if (at > data_bytes) {
    throw_bad(path, fmt::format("truncated ({} bytes of data, {} expected)", data_bytes, at));
  }
  if (at < data_bytes) {
    throw_bad(path, fmt::format("{} bytes follow the last tensor", data_bytes - at));
  }
}

// Converts elements that may be at any address.
template <typename Stored, typename Out, typename Convert>
void convert(const void* data, std::span<Out> out, Convert to_out) {
  const auto* at = static_cast<const uint8_t*>(data);
  for (Out& value : out) {
    Stored stored;
    std::memcpy(&stored, at, sizeof(Stored));
    value = to_out(stored);
    at += sizeof(Stored);
  }
}

std::string make_header(const std::vector<SafetensorsEntry>& entries, DType dtype,
                        const Metadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  // Added to the end, since a look-up by name goes through all that are there.
  auto& fields = header.get_ref<nlohmann::ordered_json::object_t&>();
  std::set<std::string_view> names = {kMetadataKey};
  int64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    const DType type = entry.dtype.value_or(dtype);
    const int64_t end = at + element_count(entry.shape) * dtype_bytes(type);
    if (!names.insert(entry.name).second) throw Error("two tensors are named " + entry.name);
    fields.push_back(
        {entry.name,
         {{"dtype", type_name(type)}, {"shape", entry.shape}, {"data_offsets", {at, end}}}});
    at = end;
  }
  std::string text = print_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  return text;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const fs::path& path) : path_(path), file_(path) {
  const auto text = header_text(path_, file_.bytes());
  const auto data = file_.bytes().subspan(sizeof(uint64_t) + text.size());
  std::vector<Located> tensors;
  const Json header = parse_header(path_, text);
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      metadata_ = parse_metadata(path_, value);
    } else {
      tensors.push_back(parse_tensor(path_, name, value));
    }
  }
  check_cover(path_, tensors, data.size());
  for (Located& tensor : tensors) {
    // TensorView is not const, but this mapping is read-only, as the header says.
    tensor.view.data = const_cast<uint8_t*>(data.data() + tensor.range.begin);
    names_.push_back(tensor.name);
    tensors_.emplace(std::move(tensor.name), std::move(tensor.view));
  }
}

void SafetensorsReader::prefix_names(std::string_view prefix) {
  std::map<std::string, TensorView, std::less<>> tensors;
  for (std::string& name : names_) {
    TensorView& view = tensors_.find(name)->second;
    name.insert(0, prefix);
    tensors.emplace(name, std::move(view));
  }
  tensors_ = std::move(tensors);
}

void SafetensorsReader::rename(std::string_view from, std::string to) {
  TensorView view = find(from);
  tensors_.erase(std::string(from));
  std::ranges::replace(names_, from, to);
  tensors_.emplace(std::move(to), std::move(view));
}

const TensorView& SafetensorsReader::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw_bad(path_, fmt::format("it holds no tensor {}", name));
  return found->second;
}

void SafetensorsReader::read_f32(std::string_view name, std::span<float> out) const {
  const TensorView& view = find(name);
  if (view.count() != static_cast<int64_t>(out.size())) {
    throw_bad(path_,
              fmt::format("tensor {} has {} values, {} expected", name, view.count(), out.size()));
  }
  switch (view.dtype) {
    case DType::kF32:
      copy_bytes(view, {reinterpret_cast<uint8_t*>(out.data()), out.size_bytes()});
      break;
    case DType::kBf16:
      convert<Bf16>(view.data, out, [](auto value) { return to_float(value); });
      break;
    case DType::kF16:
      convert<Half>(view.data, out, [](auto value) { return to_float(value); });
      break;
    default:
      throw_bad(path_, fmt::format("tensor {} has dtype {}, a floating-point type expected", name,
                                   type_name(view.dtype)));
  }
  release(view);
}

void SafetensorsReader::release(const TensorView& view) const {
  file_.release({static_cast<const uint8_t*>(view.data), static_cast<size_t>(view.bytes())});
}

std::vector<float> SafetensorsReader::read_f32(std::string_view name) const {
  std::vector<float> values(static_cast<size_t>(find(name).count()));
  read_f32(name, values);
  return values;
}

void SafetensorsReader::read_bytes(std::string_view name, DType dtype,
                                   std::span<uint8_t> out) const {
  const TensorView& view = find(name);
  if (view.dtype != dtype) {
    throw_bad(path_, fmt::format("tensor {} has dtype {}, {} expected", name, type_name(view.dtype),
                                 type_name(dtype)));
  }
  if (view.bytes() != static_cast<int64_t>(out.size())) {
    throw_bad(path_, fmt::format("tensor {} has {} values, {} expected", name, view.count(),
                                 static_cast<int64_t>(out.size()) / dtype_bytes(dtype)));
  }
  copy_bytes(view, out);
  release(view);
}

// Neither what was read nor what is kept in a file (base/offload.h) gathers in memory.
void SafetensorsReader::copy_bytes(const TensorView& view, std::span<uint8_t> out) const {
  const auto* const from = static_cast<const uint8_t*>(view.data);
  for (size_t at = 0; at < out.size(); at += kPieceBytes) {
    const auto piece = out.subspan(at, std::min(kPieceBytes, out.size() - at));
    std::memcpy(piece.data(), from + at, piece.size());
    release_offloaded(piece.data(), piece.size());
    file_.release({from + at, piece.size()});
  }
}

std::vector<int64_t> SafetensorsReader::read_integers(std::string_view name) const {
  const TensorView& view = find(name);
  std::vector<int64_t> values(static_cast<size_t>(view.count()));
  const std::span<int64_t> out(values);
  const auto widen = [](auto value) { return static_cast<int64_t>(value); };
  switch (view.dtype) {
    case DType::kI32:
      convert<int32_t>(view.data, out, widen);
      break;
    case DType::kI64:
      convert<int64_t>(view.data, out, widen);
      break;
    case DType::kU8:
      convert<uint8_t>(view.data, out, widen);
      break;
    default:
      throw_bad(path_, fmt::format("tensor {} has dtype {}, an integer type expected", name,
                                   type_name(view.dtype)));
  }
  release(view);
  return values;
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path,
                                     const std::vector<SafetensorsEntry>& entries, DType dtype,
                                     const Metadata& metadata)
    : path_(path), file_(path), dtype_(dtype) {
  if (dtype != DType::kF32 && dtype != DType::kBf16 && dtype != DType::kF16) {
    throw Error(fmt::format("cannot write {} as {}: F32, BF16 or F16 expected", path.string(),
                            type_name(dtype)));
  }
  const std::string header = make_header(entries, dtype, metadata);
  const uint64_t length = header.size();
  put(as_bytes(std::span(&length, 1)));
  put(as_bytes(header));
  for (const SafetensorsEntry& entry : entries) {
    expected_ += static_cast<uint64_t>(element_count(entry.shape));
  }
}

void SafetensorsWriter::write(std::span<const float> values) {
  written_ += values.size();
  for (; !values.empty(); values = values.subspan(std::min(values.size(), kPieceValues))) {
    const auto piece = values.first(std::min(values.size(), kPieceValues));
    if (dtype_ == DType::kF32) {
      put(as_bytes(piece));
      continue;
    }
    if (dtype_ == DType::kBf16) put_rounded(piece, to_bf16);
    if (dtype_ == DType::kF16) put_rounded(piece, to_half);
    release_offloaded(piece.data(), piece.size_bytes());
  }
}

template <typename Round>
void SafetensorsWriter::put_rounded(std::span<const float> values, Round round) {
  std::vector<std::invoke_result_t<Round, float>> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), round);
  put(as_bytes(std::span(std::as_const(rounded))));
}

void SafetensorsWriter::write_bytes(DType dtype, std::span<const uint8_t> bytes) {
  written_ += bytes.size() / static_cast<size_t>(dtype_bytes(dtype));
  put(bytes);
}

void SafetensorsWriter::commit() {
  if (written_ != expected_) {
    throw Error(fmt::format("cannot write {}: {} values announced, {} given", path_.string(),
                            expected_, written_));
  }
  file_.commit();
}

void SafetensorsWriter::put(std::span<const uint8_t> bytes) {
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kPieceBytes))) {
    const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    file_.write(piece);
    hash_.update(piece);
    release_offloaded(piece.data(), piece.size());
  }
}

}  // namespace thinwire::tensor

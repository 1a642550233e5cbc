// Safetensors files (https://github.com/huggingface/safetensors): named tensors, memory-mapped for
// reading, streamed for writing. Layout: u64 header length, header (JSON: name -> dtype, shape,
// byte range; "__metadata__": strings), then the data, little-endian and row-major.
//
// The reader is total: any bytes give a reader or an Error naming the file. It accepts what the
// reference implementation accepts (the byte ranges cover the data without holes or overlaps, and
// sizes match dtype times shape) for the types F32, F16, BF16, I32, I64 and U8. All const members
// may be called from many threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/file.h"
#include "thinwire/base/tensor_view.h"

namespace thinwire::tensor {

// Free text stored beside the tensors.
using Metadata = std::map<std::string, std::string>;

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const fs::path& path);

  // Puts `prefix` before the name of every tensor.
  void prefix_names(std::string_view prefix);
  // Gives a tensor another name, which no other has. Throws Error if it holds no such tensor.
  void rename(std::string_view from, std::string to);

  const fs::path& path() const { return path_; }
  // In the order of the data.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  // The tensor inside the mapped file: read-only, and aligned to its element type only if the
  // file's writer took care of it. Throws Error if there is no tensor of this name.
  const TensorView& find(std::string_view name) const;
  const Metadata& metadata() const { return metadata_; }

  // Copies a floating-point tensor (F32, F16, BF16) as fp32. Throws Error if it has another type or
  // not as many elements as `out`. What was copied no longer takes memory in the mapping; so do the
  // other functions that copy.
  void read_f32(std::string_view name, std::span<float> out) const;
  std::vector<float> read_f32(std::string_view name) const;
  // Copies a tensor of this type as it is stored. Throws Error if it has another type or size.
  void read_bytes(std::string_view name, DType dtype, std::span<uint8_t> out) const;
  // Copies an integer tensor (I32, I64, U8). Throws Error if it has another type.
  std::vector<int64_t> read_integers(std::string_view name) const;

 private:
  void release(const TensorView& view) const;
  void copy_bytes(const TensorView& view, std::span<uint8_t> out) const;

  fs::path path_;
  MappedFile file_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::vector<std::string> names_;
  Metadata metadata_;
};

struct SafetensorsEntry {
  std::string name;
  Shape shape;
  std::optional<DType> dtype = {};  // that of the file if empty
};

// Writes one file from memory without a second copy of it. Nothing appears under the final name
// before commit().
class SafetensorsWriter {
 public:
  // The data must follow in the order of `entries`. dtype, for entries that do not give their own:
  // kF32, or kBf16 or kF16 (rounded to nearest even).
  SafetensorsWriter(const fs::path& path, const std::vector<SafetensorsEntry>& entries, DType dtype,
                    const Metadata& metadata);

  // The next values of the file's type, in pieces of any size.
  void write(std::span<const float> values);
  // The next values of another type, as they are.
  void write_bytes(DType dtype, std::span<const uint8_t> bytes);
  // Throws Error unless exactly the announced number of values was written.
  void commit();

  uint64_t size() const { return file_.size(); }
  // Hash of the file's bytes so far.
  uint64_t hash() const { return hash_.value(); }

 private:
  template <typename Round>
  void put_rounded(std::span<const float> values, Round round);
  void put(std::span<const uint8_t> bytes);

  fs::path path_;
  AtomicFile file_;
  StreamHash hash_;
  DType dtype_;
  uint64_t expected_ = 0;  // values
  uint64_t written_ = 0;
};

}  // namespace thinwire::tensor

#include "thinwire/checkpoint/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"

namespace thinwire::checkpoint {
namespace {

constexpr size_t kNamesShown = 8;

// "missing: a, b, c and 5 more"
std::string list_names(std::string_view heading, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const auto shown = std::span(names).first(std::min(names.size(), kNamesShown));
  std::string text = fmt::format("\n  {}: {}", heading, fmt::join(shown, ", "));
  if (names.size() > shown.size()) text += fmt::format(" and {} more", names.size() - shown.size());
  return text;
}

void write_tensor(const tensor::Arena& params, size_t index, tensor::SafetensorsWriter& file) {
  if (params.format() == WeightFormat::kF32) return file.write(params.tensor(index));
  constexpr int64_t kPiece = 65'536;
  std::vector<float> values;
  const int64_t count = params.layout().specs()[index].count();
  for (int64_t at = 0; at < count; at += kPiece) {
    values.resize(static_cast<size_t>(std::min(kPiece, count - at)));
    params.read(params.layout().offset(index) + at, values);
    file.write(values);
  }
}

}  // namespace

TensorFiles tensors_of(const tensor::SafetensorsReader& file) {
  TensorFiles files;
  for (const std::string& name : file.names()) files.emplace(name, &file);
  return files;
}

void check_weights(const fs::path& origin, const TensorFiles& files,
                   std::span<const TensorSpec> specs) {
  std::vector<std::string> missing;
  std::vector<std::string> misshaped;
  std::vector<std::string> extra;
  std::set<std::string_view> expected;
  for (const TensorSpec& spec : specs) {
    expected.insert(spec.name);
    const auto found = files.find(spec.name);
    if (found == files.end()) {
      missing.push_back(spec.name);
      continue;
    }
    const Shape& shape = found->second->find(spec.name).shape;
    if (shape != spec.shape) {
      misshaped.push_back(fmt::format("{} [{}] instead of [{}]", spec.name, fmt::join(shape, ", "),
                                      fmt::join(spec.shape, ", ")));
    }
  }
  for (const auto& [name, file] : files) {
    if (!expected.contains(name)) extra.push_back(name);
  }
  if (missing.empty() && misshaped.empty() && extra.empty()) return;
  throw Error(fmt::format("the tensors of {} are not those of the model it describes:{}{}{}",
                          origin.string(), list_names("missing", missing),
                          list_names("another shape", misshaped),
                          list_names("not part of the model", extra)));
}

uint64_t read_weights(const TensorFiles& files, tensor::Arena& params,
                      const TensorProgress& progress) {
  Digest digest;
  const auto specs = params.layout().specs();
  for (size_t i = 0; i < specs.size(); ++i) {
    if (progress) progress(i, specs.size());
    const auto file = files.find(specs[i].name);
    if (file == files.end()) continue;
    params.fill_tensor(i, [&](std::span<float> values) {
      file->second->read_f32(specs[i].name, values);
      digest.add(i, as_bytes(std::span<const float>(values)));
    });
  }
  if (progress) progress(specs.size(), specs.size());
  return digest.value();
}

FileStamp write_weights(const fs::path& path, const tensor::Arena& params, DType dtype,
                        const TensorProgress& progress) {
  const auto specs = params.layout().specs();
  std::vector<tensor::SafetensorsEntry> entries;
  for (const TensorSpec& spec : specs) entries.push_back({spec.name, spec.shape});
  // Without this mark transformers refuses the file.
  tensor::SafetensorsWriter file(path, entries, dtype, {{"format", "pt"}});
  for (size_t i = 0; i < specs.size(); ++i) {
    if (progress) progress(i, specs.size());
    write_tensor(params, i, file);
  }
  if (progress) progress(specs.size(), specs.size());
  file.commit();
  return {file.size(), file.hash()};
}

}  // namespace thinwire::checkpoint

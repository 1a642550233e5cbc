// thinwire inspect: files with tensors, checkpoints and payloads.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/payload_format.h"
#include "thinwire/base/units.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/cli/inspect/inspect.h"
#include "thinwire/codec/payload.h"
#include "thinwire/report/table.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::cli {
namespace {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kBf16:
      return "bf16";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
    case DType::kU8:
      return "uint8";
    case DType::kF16:
      return "fp16";
  }
  return "?";
}

std::string describe_tensors(const tensor::SafetensorsReader& reader) {
  report::Table table{{{"tensor", true}, {"type", true}, {"shape"}, {"values"}}, {}};
  int64_t values = 0;
  for (const std::string& name : reader.names()) {
    const TensorView& view = reader.find(name);
    values += view.count();
    std::string shape;
    for (const int64_t side : view.shape)
      shape += fmt::format("{}{}", shape.empty() ? "" : " x ", side);
    table.rows.push_back({name, name_of(view.dtype), shape, fmt::format("{}", view.count())});
  }
  std::string text =
      fmt::format("{}, {}\n", counted(reader.names().size(), "tensor"), counted(values, "value"));
  for (const auto& [key, value] : reader.metadata()) text += fmt::format("{}: {}\n", key, value);
  return text + (table.rows.empty() ? "" : table.terminal());
}

std::string describe_config_and_weights(const fs::path& folder, const char* config) {
  std::string text = fmt::format("{}:\n{}", config, read_text_file(folder / config));
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    text += fmt::format("\n{}: {}", file.filename().string(), describe_safetensors(file));
  }
  return text;
}

}  // namespace

std::string describe_safetensors(const fs::path& file) {
  return describe_tensors(tensor::SafetensorsReader(file));
}

std::string describe_checkpoint(const fs::path& folder) {
  const checkpoint::CheckpointReader checkpoint(folder);
  const checkpoint::CheckpointMeta& meta = checkpoint.meta();
  std::string text =
      fmt::format("checkpoint after step {}, {} tokens, undamaged\n", meta.step, meta.tokens);
  if (!meta.method.empty()) {
    text += fmt::format("method {}, {}, run {}\n", meta.method,
                        counted(int64_t{meta.workers}, "worker"), to_hex(meta.run));
  }
  text += fmt::format("numerics version {}, digest {}\n\n", meta.numerics_version,
                      to_hex(checkpoint.digest()));
  report::Table files{{{"file", true}, {"size"}, {"hash"}}, {}};
  for (const auto& [name, file] : checkpoint.files()) {
    files.rows.push_back({name, format_bytes(static_cast<double>(file.bytes)), to_hex(file.hash)});
  }
  return text + files.terminal() + "\n" + describe_tensors(checkpoint.weights());
}

std::string describe_hugging_face(const fs::path& folder) {
  return fmt::format("Hugging Face folder, {}", describe_config_and_weights(folder, "config.json"));
}

std::string describe_peft(const fs::path& folder) {
  return fmt::format(
      "PEFT folder with the factors of an adapter: `thinwire generate {}` uses it, with --base if "
      "the model is not where base_model_name_or_path says; {}",
      folder.string(), describe_config_and_weights(folder, "adapter_config.json"));
}

std::string describe_payload(const fs::path& file) {
  constexpr size_t kMagicAndVersion = 6;
  const MappedFile mapped(file);
  ByteReader reader(mapped.bytes());
  reader.get_bytes(kMagicAndVersion);
  codec::PayloadId id;
  id.method = static_cast<codec::PayloadMethod>(reader.get<uint16_t>());
  id.run = reader.get<uint64_t>();
  id.epoch = reader.get<uint32_t>();
  id.sender = reader.get<uint32_t>();
  id.round = reader.get<uint64_t>();
  const auto body = codec::open_payload(mapped.bytes(), id);
  if (!body) throw Error(fmt::format("{}: {}", file.string(), body.error().message));
  return fmt::format(
      "payload of method {}, run {}, epoch {}, round {}, sender {}: {} after a header "
      "of {}, undamaged\n",
      static_cast<int>(id.method), to_hex(id.run), id.epoch, id.round, id.sender,
      format_bytes(static_cast<double>(body->size())),
      format_bytes(static_cast<double>(kPayloadHeaderBytes)));
}

}  // namespace thinwire::cli

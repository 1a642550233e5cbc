// Models of other programs, written (thinwire/exporting.h) and read (thinwire/importing.h).
#include <optional>

#include "thinwire/base/tensor_view.h"
#include "thinwire/convert/hf.h"
#include "thinwire/convert/peft.h"
#include "thinwire/exporting.h"
#include "thinwire/importing.h"

namespace thinwire {
namespace {

std::optional<DType> type_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFp32:
      return DType::kF32;
    case NumberFormat::kBf16:
      return DType::kBf16;
    case NumberFormat::kAsImported:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> export_model(const std::filesystem::path& from,
                                      const std::filesystem::path& to,
                                      const ExportOptions& options) {
  const std::optional<DType> type = type_of(options.format);
  if (!options.adapter) return convert::export_hf(from, to, type, {}, options.base);
  if (!options.base.empty()) {
    throw UsageError("ExportOptions::base is for a whole model; factors are exported without it");
  }
  convert::export_peft(from, to, type.value_or(DType::kF32));
  return {};
}

std::vector<std::string> import_model(const std::filesystem::path& from,
                                      const std::filesystem::path& to,
                                      const ImportOptions& options) {
  return convert::import_hf(from, to, options.on_progress, options.on_progress, options.base,
                            options.labels);
}

}  // namespace thinwire

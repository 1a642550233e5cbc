#include "thinwire/checkpoint/adapter_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDigest = "base_digest";
constexpr const char* kModel = "base_model";

}  // namespace

uint64_t digest_weights(const tensor::Arena& weights) {
  Digest digest;
  for (size_t i = 0; i < weights.layout().size(); ++i) {
    digest.add(i, as_bytes(weights.tensor(i)));
  }
  return digest.value();
}

std::string print_adapter_base(const AdapterBase& base) {
  const Json json = {{kDigest, to_hex(base.digest)}, {kModel, base.model}};
  return print_json(json, {.indent = 2}) + "\n";
}

AdapterBase read_adapter_base(const fs::path& folder) {
  const fs::path path = folder / kAdapterBaseFile;
  const Json json = try_parse_json<Json>(read_text_file(path));
  const auto text = [&](const char* key) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_string()) {
      throw Error(fmt::format("{} is damaged: it has no text {}", path.string(), key));
    }
    return json[key].get<std::string>();
  };
  AdapterBase base;
  base.model = text(kModel);
  const std::string digits = text(kDigest);
  const char* const end = digits.data() + digits.size();
  const auto [at, error] = std::from_chars(digits.data(), end, base.digest, 16);
  if (error != std::errc() || at != end) {
    throw Error(
        fmt::format("{} is damaged: {} is not a hexadecimal number", path.string(), kDigest));
  }
  return base;
}

void check_adapter_base(const fs::path& folder, const AdapterBase& expected, const fs::path& found,
                        uint64_t digest) {
  if (digest == expected.digest) return;
  throw Error(fmt::format(
      "the factors in {} belong to the weights of {} (digest {}), but {} holds others ({}): "
      "another model, or this one with factors already merged; name the original one",
      folder.string(), expected.model, to_hex(expected.digest), found.string(), to_hex(digest)));
}

void copy_common(const tensor::Arena& from, tensor::Arena& to) {
  for (size_t i = 0; i < to.layout().size(); ++i) {
    const std::optional<size_t> same = from.layout().index_of(to.layout().specs()[i].name);
    if (!same) continue;
    from.touch_tensor(*same, false);
    to.fill_tensor(
        i, [&](std::span<float> values) { std::ranges::copy(from.tensor(*same), values.begin()); });
  }
}

void add_adapter(const tensor::Arena& trained, const method::AdapterSpec& adapter,
                 tensor::Arena& weights, ThreadPool& threads) {
  const auto scale = static_cast<float>(method::factor_scale(adapter));
  for (size_t i = 0; i < weights.layout().size(); ++i) {
    const method::FactorNames names = method::factor_names(weights.layout().specs()[i].name);
    const std::optional<size_t> a = trained.layout().index_of(names.a);
    if (!a) continue;
    tensor::add_factors(weights.tensor(i), trained.tensor(*a),
                        trained.tensor(trained.layout().find(names.b)), adapter.rank, scale,
                        threads);
  }
}

}  // namespace thinwire::checkpoint

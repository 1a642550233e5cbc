#include "thinwire/architectures/external/external_spec.h"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <string>

#include "thinwire/base/error.h"
#include "thinwire/base/names.h"

namespace thinwire::method {
namespace {

constexpr int64_t kLargestSide = int64_t{1} << 40;

const config::StringList& lines_of(const ModelSpec& model) {
  return model.options<ExternalOptions>().tensors;
}

[[noreturn]] void refuse(std::string_view line, std::string_view why) {
  throw UsageError(
      fmt::format("[external] tensors must be \"NAME SHAPE\" or \"NAME SHAPE ROLE\", as \"hidden "
                  "16x4\" and \"offset 16 bias\", got \"{}\": {}",
                  line, why));
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

Shape shape_of(std::string_view line, std::string_view text) {
  Shape shape;
  int64_t count = 1;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('x', at), text.size());
    int64_t side = 0;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, side);
    if (error != std::errc() || rest != text.data() + end || side < 1 ||
        side > kLargestSide / count) {
      refuse(line, fmt::format("{} is no shape", text));
    }
    count *= side;
    shape.push_back(side);
    at = end + 1;
  }
  return shape;
}

TensorRole role_of(std::string_view line, std::string_view text) {
  if (const auto role = value_named<TensorRole>(text)) return *role;
  refuse(line, fmt::format("a role is matrix, bias, norm, embedding or head, not {}", text));
}

std::vector<TensorSpec> external_tensors(const ModelSpec& model) {
  std::vector<TensorSpec> tensors;
  for (const std::string& line : lines_of(model)) tensors.push_back(external_tensor(line));
  return tensors;
}

void check_external(const ModelSpec& model) {
  const std::vector<TensorSpec> tensors = external_tensors(model);
  if (tensors.empty()) {
    throw UsageError(
        "[model] architecture = \"external\" needs [external] tensors, the names and shapes of the "
        "program's own model, got none");
  }
  std::set<std::string> names;
  for (const TensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw UsageError(fmt::format("[external] tensors has two of the name {}", tensor.name));
    }
  }
}

InitialValues external_initial(const ModelSpec& model, const TensorSpec& tensor) {
  if (tensor.role == TensorRole::kNorm) return {.mean = 1};
  if (tensor.role == TensorRole::kBias) return {};
  return {.deviation = model.init_std};
}

// As if each parameter were multiplied with one number, forward and twice backward.
double external_flops(const ModelSpec& model, int64_t /*sequence*/) {
  double count = 0;
  for (const TensorSpec& tensor : external_tensors(model)) {
    count += static_cast<double>(tensor.count());
  }
  return 6 * count;
}

TokenWork external_work(const ModelSpec& model, const PassShape& pass) {
  return {.products = external_flops(model, pass.sequence)};
}

// What the program keeps is its own business.
PassMemory external_memory(const ModelSpec&, const PassShape&) { return {}; }

double nothing_kept(const ModelSpec&) { return 0; }

int64_t one(const ModelSpec&) { return 1; }

}  // namespace

TensorSpec external_tensor(const std::string& line) {
  const std::vector<std::string_view> words = words_of(line);
  if (words.size() < 2 || words.size() > 3) {
    refuse(line, fmt::format("it has {} words", words.size()));
  }
  TensorSpec tensor{std::string(words[0]), shape_of(line, words[1])};
  tensor.role = tensor.shape.size() == 2 ? TensorRole::kMatrix : TensorRole::kBias;
  if (words.size() == 3) tensor.role = role_of(line, words[2]);
  if (tensor.role == TensorRole::kMatrix && tensor.shape.size() != 2) {
    refuse(line, "a matrix has two sides");
  }
  return tensor;
}

void ExternalOptions::describe(config::Fields& fields) {
  fields.list(
      "tensors", tensors,
      "Tensors of the program's own model: name, shape and, if it is not matrix (two sides) "
      "or bias (one), role: \"table 1000x16 embedding\". Weight decay leaves out norms and "
      "biases.");
}

const Architecture kExternal = {
    .name = "external",
    .sentence =
        "A model that a program which embeds Thinwire computes itself (docs/embedding.md). Rows "
        "are "
        "numbers whose meaning is the program's.",
    .options = []() -> std::unique_ptr<config::Section> {
      return std::make_unique<ExternalOptions>();
    },
    .shape_fields = {},
    .arithmetic_fields = {},
    .check = check_external,
    .tensors = external_tensors,
    .initial = external_initial,
    .flops_per_token = external_flops,
    .work = external_work,
    .memory = external_memory,
    .kept_per_token = nothing_kept,
    .head_size = one,
    .outputs = one,
};

bool is_external(const config::Recipe& recipe) {
  return recipe.model.architecture == kExternal.name;
}

}  // namespace thinwire::method

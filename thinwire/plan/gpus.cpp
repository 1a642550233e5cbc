// How fast usual machines train, for plans before anything was measured.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/config/values.h"
#include "thinwire/plan/members.h"

namespace thinwire::plan {
namespace {

constexpr double kTera = 1e12;

struct Gpu {
  std::string_view name;
  double peak_tflops;  // as its maker publishes it
};

// Dense products of bf16 that are summed in fp32, or of fp16 where there is no bf16 (V100, T4);
// fp32 of Macs.
constexpr std::array<Gpu, 26> kGpus = {
    {{"RTX 3070", 40.6},     {"RTX 3080", 59.5},   {"RTX 3090", 71},    {"RTX 3090 Ti", 80},
     {"RTX 4070 Ti", 80.2},  {"RTX 4080", 97.5},   {"RTX 4090", 165.2}, {"RTX 5080", 112.6},
     {"RTX 5090", 209.5},    {"RTX A6000", 154.8}, {"A10", 125},        {"A30", 165},
     {"A40", 149.7},         {"A100", 312},        {"L4", 121},         {"L40S", 362},
     {"H100", 989.4},        {"H200", 989.4},      {"V100", 125},       {"T4", 65},
     {"RX 7900 XTX", 122.8}, {"MI250X", 383},      {"MI300X", 1307.4},  {"M1 Max", 10.4},
     {"M1 Ultra", 21},       {"M2 Ultra", 27.2}}};

// Letters in lower case and digits: "rtx4090" and "RTX 4090" are one name.
std::string plain(std::string_view name) {
  std::string kept;
  for (const char one : name) {
    const auto letter = static_cast<unsigned char>(one);
    if (std::isalnum(letter) != 0) kept += static_cast<char>(std::tolower(letter));
  }
  return kept;
}

}  // namespace

double gpu_flops(const std::string& name) {
  std::vector<std::string> names;
  for (const Gpu& gpu : kGpus) {
    if (plain(gpu.name) == plain(name)) return kGpuEfficiency * gpu.peak_tflops * kTera;
    names.emplace_back(gpu.name);
  }
  const std::string near = config::nearest_name(name, names);
  throw UsageError(fmt::format("gpu must be one of {}, got \"{}\"{}; for others give flops",
                               fmt::join(names, ", "), name,
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

}  // namespace thinwire::plan

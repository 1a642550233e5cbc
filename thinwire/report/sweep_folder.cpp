#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/report/sweep_results.h"

namespace thinwire::report {
namespace {

// "lr-0.001_seed-1_01234567.log": names of runs end in a hash of their recipe.
bool is_run_log(const std::string& name) {
  constexpr std::string_view kEnding = ".log";
  constexpr size_t kDigits = 8;
  if (!name.ends_with(kEnding) || name.size() < kDigits + kEnding.size()) return false;
  const auto digits = std::string_view(name).substr(name.size() - kDigits - kEnding.size());
  return std::ranges::all_of(digits.substr(0, kDigits), [](char c) {
    return std::isxdigit(static_cast<unsigned char>(c)) != 0;
  });
}

}  // namespace

void require_sweep_folder(const fs::path& out) {
  if (!fs::exists(out)) return;
  if (!fs::is_directory(out)) {
    throw UsageError(fmt::format("--out {} is a file; choose a folder", out.string()));
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.path().filename() != kSweepLock) names.push_back(entry.path().filename());
  }
  if (names.empty() || std::ranges::any_of(names, is_run_log)) return;
  if (fs::exists(out / "results.md") && fs::exists(out / "results.csv")) return;
  throw UsageError(
      fmt::format("--out {} is not a sweep's folder: it holds {} but no sweep's results or runs; "
                  "choose a new folder",
                  out.string(), *std::ranges::min_element(names)));
}

}  // namespace thinwire::report

#include "thinwire/base/error.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <new>
#include <string_view>

namespace thinwire {
namespace {

struct Wording {
  std::string_view library;  // part of what the C++ library calls an operation
  std::string_view plain;
};
// The first one that matches is used.
constexpr std::array<Wording, 11> kWordings = {{{"current path", "find the current folder"},
                                                {"create director", "create folder"},
                                                {"directory iterator", "read folder"},
                                                {"status", "look at"},
                                                {"file size", "look at"},
                                                {"file time", "look at"},
                                                {"is empty", "look at"},
                                                {"remove", "remove"},
                                                {"rename", "rename"},
                                                {"copy", "copy"},
                                                {"path", "find"}}};

// The library's text begins with its name for the operation, followed by the system's reason.
std::string_view plain_operation(const std::filesystem::filesystem_error& error) {
  const std::string_view text = error.what();
  const std::string_view operation = text.substr(0, text.find(error.code().message()));
  for (const auto& [library, plain] : kWordings) {
    if (operation.find(library) != std::string_view::npos) return plain;
  }
  return "use";
}

}  // namespace

std::string plain_message(const std::exception& error) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    std::string text = fmt::format("cannot {}", plain_operation(*file));
    if (!file->path1().empty()) text += " " + file->path1().string();
    if (!file->path2().empty()) text += " to " + file->path2().string();
    return text + ": " + file->code().message();
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "not enough memory";
  return error.what();
}

}  // namespace thinwire

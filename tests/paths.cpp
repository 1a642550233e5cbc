#include "tests/paths.h"

namespace thinwire::tests {

std::filesystem::path source_file(const std::string& name) {
  return std::filesystem::path(THINWIRE_SOURCE_DIR) / name;
}

std::filesystem::path shared_data(const std::string& name) {
  return std::filesystem::path(THINWIRE_SHARED_DATA) / name;
}

}  // namespace thinwire::tests

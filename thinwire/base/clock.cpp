#include "thinwire/base/clock.h"

#include <fmt/chrono.h>

namespace thinwire {

std::string utc_timestamp() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

double unix_seconds() {
  using std::chrono::system_clock;
  return std::chrono::duration<double>(system_clock::now().time_since_epoch()).count();
}

}  // namespace thinwire

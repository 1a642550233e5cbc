// libFuzzer target of events::parse_summary (preset fuzz): the result that a member reports at the
// end. Whatever is read is printed to a text that is read to the same.
#include <string>
#include <string_view>

#include "target.h"
#include "thinwire/base/error.h"
#include "thinwire/events/summary.h"

FUZZ_TARGET(summary)(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  thinwire::events::Summary summary;
  try {
    summary = thinwire::events::parse_summary(text, "a member");
  } catch (const thinwire::Error&) {
    return 0;
  }
  const std::string printed = print_summary(summary);
  require(print_summary(thinwire::events::parse_summary(printed, "here")) == printed);
  return 0;
}

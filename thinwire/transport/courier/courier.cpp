#include "thinwire/transport/courier/courier.h"

#include <fmt/format.h>

#include <algorithm>

namespace thinwire::transport {

bool is_courier_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, fits);
}

void check_courier_name(std::string_view what, std::string_view text) {
  if (is_courier_name(text)) return;
  // What others sent may end up here, escape codes included.
  throw UsageError(
      fmt::format("{} must be 1 to 64 of A-Z, a-z, 0-9, '-' and '_', got {} bytes: {:?}", what,
                  text.size(), text.substr(0, 80)));
}

void check_message(std::string_view what, std::string_view name, size_t bytes) {
  check_courier_name(what, name);
  if (bytes <= kMaxMessageBytes) return;
  throw Error(fmt::format("a message for {} has {} bytes, at most {} can be sent", name, bytes,
                          kMaxMessageBytes));
}

void Courier::place(const std::string& /*holder*/, const std::string& /*site*/, const Done& done) {
  done(fail(FailureKind::kRefused, "the run's servers are not sites"));
}

}  // namespace thinwire::transport

#include "thinwire/transport/courier/courier.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "thinwire/base/json.h"
#include "thinwire/base/nkey.h"

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

std::optional<ConnectionNotice> parse_connection_notice(std::span<const uint8_t> statement) {
  const std::string_view text(reinterpret_cast<const char*>(statement.data()), statement.size());
  const auto event = try_parse_json<nlohmann::json>(text);
  if (!event.is_object() || !event.contains("client")) return std::nullopt;
  const auto& client = event["client"];
  if (!client.is_object() || !client.contains("user") || !client["user"].is_string() ||
      !client.contains("id") || !client["id"].is_number_unsigned()) {
    return std::nullopt;
  }
  const auto owner = decode_public_key(NKeyKind::kUser, client["user"].get<std::string>());
  if (!owner) return std::nullopt;
  return ConnectionNotice{*owner, client["id"].get<uint64_t>()};
}

}  // namespace thinwire::transport

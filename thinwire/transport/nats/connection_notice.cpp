#include "thinwire/transport/nats/connection_notice.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "thinwire/base/json.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::transport {

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

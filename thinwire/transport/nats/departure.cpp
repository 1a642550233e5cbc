#include "thinwire/transport/nats/departure.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "thinwire/base/json.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::transport {

std::optional<PublicKey> departed(std::span<const uint8_t> statement) {
  const std::string_view text(reinterpret_cast<const char*>(statement.data()), statement.size());
  const auto event = try_parse_json<nlohmann::json>(text);
  if (!event.is_object() || !event.contains("client")) return std::nullopt;
  const auto& client = event["client"];
  if (!client.is_object() || !client.contains("user") || !client["user"].is_string()) {
    return std::nullopt;
  }
  return decode_public_key(NKeyKind::kUser, client["user"].get<std::string>());
}

}  // namespace thinwire::transport

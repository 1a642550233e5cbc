// Certificates (X.509, ECDSA over P-256) of a run's own authority: members believe servers that it
// signed, and no other authority of the world. Made by OpenSSL; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "thinwire/base/bytes.h"

namespace thinwire::transport {

// The name in every server certificate, whatever the address under which it is reached.
inline constexpr const char* kServerName = "server.thinwire.internal";

// A certificate and its private key, in PEM.
struct Certificate {
  std::string certificate;
  std::string key;
};

// Seconds since 1970.
struct Validity {
  int64_t from = 0;
  int64_t until = 0;
};

// An authority that may sign servers and nothing else. Throws Error where OpenSSL fails.
Certificate make_authority(const Validity& validity);
// A server's, signed by the authority.
Certificate make_server_certificate(const Certificate& authority, const Validity& validity);

// A certificate as the bytes that tokens carry (DER), and back; throws Error for a text that is no
// certificate, and gives nothing for bytes that are none.
Bytes certificate_bytes(const std::string& pem);
std::optional<std::string> certificate_text(std::span<const uint8_t> der);

}  // namespace thinwire::transport

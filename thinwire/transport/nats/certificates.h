// Certificates (X.509, ECDSA over P-256) of a run's own authority. Members trust servers signed by
// it and by no other authority. Made by OpenSSL. May be used from any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"

namespace thinwire::transport {

// The name in every server certificate, whatever address the server is reached at.
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

// Ten years, from yesterday on: a member whose clock is slightly slow must accept it, too.
Validity validity_from_now();

// An authority that may sign server certificates and nothing else. Throws Error if OpenSSL fails.
Certificate make_authority(const Validity& validity);
// A server certificate signed by the authority, whose own follows it: servers present both. `host`:
// a host's name or IP address that it names beside kServerName; empty: none.
Certificate make_server_certificate(const Certificate& authority, const Validity& validity,
                                    const std::string& host = "");

// The validity of the first certificate in a text. Throws Error if there is none.
Validity validity_of(const std::string& pem);

// Converts a certificate to the bytes that tokens carry (DER), and back. The first throws Error if
// the text is not a certificate; the second returns nothing if the bytes are not one.
Bytes certificate_bytes(const std::string& pem);
std::optional<std::string> certificate_text(std::span<const uint8_t> der);

// The first 128 bits of the SHA-256 of a certificate (DER), which say which one is meant.
struct Fingerprint {
  std::array<uint8_t, 16> bytes{};
  auto operator<=>(const Fingerprint&) const = default;
};
Fingerprint fingerprint_of(std::span<const uint8_t> der);

// The certificate, in PEM, with this fingerprint among those that a NATS server presents. Nothing
// else of the server is checked: whoever has the certificate can check the rest. Waits up to
// `timeout_s` for each of the host's addresses. kLostPeer: nobody answers; kRefused: another server
// is there. Calls ignore_closed_pipes().
Result<std::string> presented_authority(const std::string& host, int port,
                                        const Fingerprint& fingerprint, double timeout_s);

}  // namespace thinwire::transport

#include "thinwire/transport/nats/certificates.h"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>

#include "thinwire/base/clock.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/ip_address.h"

namespace thinwire::transport {
namespace {

constexpr int kSerialBits = 127;
constexpr int64_t kDay = 24 * 3600;
constexpr int64_t kValidDays = 3650;

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(BIO* memory) const { BIO_free(memory); }
  void operator()(BIGNUM* number) const { BN_free(number); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

void require(bool done, const char* what) {
  if (!done) throw Error(fmt::format("OpenSSL cannot {}", what));
}

Owned<BIO> reading(std::span<const char> text) {
  require(text.size() <= static_cast<size_t>(std::numeric_limits<int>::max()), "read so much");
  Owned<BIO> memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  require(memory != nullptr, "read from memory");
  return memory;
}

std::string written(BIO* memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory, &data);
  return {data, static_cast<size_t>(size)};
}

std::string to_pem(X509* certificate) {
  const Owned<BIO> memory(BIO_new(BIO_s_mem()));
  require(memory && PEM_write_bio_X509(memory.get(), certificate) == 1, "write a certificate");
  return written(memory.get());
}

std::string to_pem(EVP_PKEY* key) {
  const Owned<BIO> memory(BIO_new(BIO_s_mem()));
  require(memory && PEM_write_bio_PrivateKey(memory.get(), key, nullptr, nullptr, 0, nullptr,
                                             nullptr) == 1,
          "write a private key");
  return written(memory.get());
}

Owned<X509> certificate_of(const std::string& pem) {
  Owned<X509> certificate(PEM_read_bio_X509(reading(pem).get(), nullptr, nullptr, nullptr));
  require(certificate != nullptr, "read a certificate");
  return certificate;
}

Owned<EVP_PKEY> key_of(const std::string& pem) {
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(reading(pem).get(), nullptr, nullptr, nullptr));
  require(key != nullptr, "read a private key");
  return key;
}

void add_extension(X509* certificate, X509* issuer, int which, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Owned<X509_EXTENSION> extension(
      X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str()));
  require(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "add an extension");
}

std::string names_of(const std::string& host) {
  std::string names = fmt::format("DNS:{}", kServerName);
  if (!host.empty()) names += fmt::format(",{}:{}", is_ip_address(host) ? "IP" : "DNS", host);
  return names;
}

// A new key's certificate, with everything but extensions and signature.
Owned<X509> unsigned_certificate(EVP_PKEY* key, const char* name, const Validity& validity) {
  Owned<X509> made(X509_new());
  X509* certificate = made.get();
  const Owned<BIGNUM> serial(BN_new());
  require(certificate != nullptr && serial && X509_set_version(certificate, X509_VERSION_3) == 1 &&
              BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
              BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr,
          "begin a certificate");
  auto* subject = X509_get_subject_name(certificate);
  const auto* text = reinterpret_cast<const unsigned char*>(name);
  require(ASN1_TIME_set(X509_getm_notBefore(certificate), validity.from) != nullptr &&
              ASN1_TIME_set(X509_getm_notAfter(certificate), validity.until) != nullptr &&
              X509_set_pubkey(certificate, key) == 1 &&
              X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1,
          "fill in a certificate");
  return made;
}

Certificate sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key, EVP_PKEY* key) {
  require(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1, "name the issuer");
  require(X509_sign(certificate, issuer_key, EVP_sha256()) > 0, "sign a certificate");
  return {to_pem(certificate), to_pem(key)};
}

}  // namespace

Validity validity_from_now() {
  const auto now = static_cast<int64_t>(unix_seconds());
  return {now - kDay, now + kValidDays * kDay};
}

Certificate make_authority(const Validity& validity) {
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  require(key != nullptr, "make a key");
  const Owned<X509> made = unsigned_certificate(key.get(), "Thinwire run", validity);
  X509* certificate = made.get();
  add_extension(certificate, certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign");
  add_extension(certificate, certificate, NID_subject_key_identifier, "hash");
  return sign(certificate, certificate, key.get(), key.get());
}

Certificate make_server_certificate(const Certificate& authority, const Validity& validity,
                                    const std::string& host) {
  const Owned<X509> issuer = certificate_of(authority.certificate);
  const Owned<EVP_PKEY> issuer_key = key_of(authority.key);
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  require(key != nullptr, "make a key");
  const Owned<X509> made = unsigned_certificate(key.get(), kServerName, validity);
  X509* certificate = made.get();
  add_extension(certificate, issuer.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(certificate, issuer.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(certificate, issuer.get(), NID_ext_key_usage, "serverAuth");
  add_extension(certificate, issuer.get(), NID_subject_alt_name, names_of(host));
  add_extension(certificate, issuer.get(), NID_authority_key_identifier, "keyid");
  Certificate signed_one = sign(certificate, issuer.get(), issuer_key.get(), key.get());
  signed_one.certificate += authority.certificate;
  return signed_one;
}

Validity validity_of(const std::string& pem) {
  const Owned<X509> certificate = certificate_of(pem);
  const auto seconds = [](const ASN1_TIME* time) {
    std::tm parts{};
    require(ASN1_TIME_to_tm(time, &parts) == 1, "read a date");
    return static_cast<int64_t>(::timegm(&parts));
  };
  return {seconds(X509_get0_notBefore(certificate.get())),
          seconds(X509_get0_notAfter(certificate.get()))};
}

Bytes certificate_bytes(const std::string& pem) {
  const Owned<X509> certificate = certificate_of(pem);
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate.get(), &der);
  require(size > 0, "encode a certificate");
  Bytes bytes(der, der + size);
  OPENSSL_free(der);
  return bytes;
}

std::optional<std::string> certificate_text(std::span<const uint8_t> der) {
  const unsigned char* at = der.data();
  const Owned<X509> certificate(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
  if (!certificate || at != der.data() + der.size()) return std::nullopt;
  return to_pem(certificate.get());
}

Fingerprint fingerprint_of(std::span<const uint8_t> der) {
  Fingerprint first;
  std::copy_n(sha256(der).bytes.begin(), first.bytes.size(), first.bytes.begin());
  return first;
}

}  // namespace thinwire::transport

#include "thinwire/hosts/request_message.h"

#include <fmt/format.h>

#include <algorithm>

namespace thinwire::hosts {
namespace {

constexpr std::string_view kRequestMagic = "TWRQ";
constexpr std::string_view kAnswerMagic = "TWAN";

void begin(ByteWriter& out, std::string_view magic) {
  out.put_bytes(as_bytes(magic));
  out.put(static_cast<uint16_t>(kProtocolVersion));
}

void sign(Bytes& bytes, const Signer& signer) {
  const Signature signature = signer.sign(bytes);
  ByteWriter(bytes).put_bytes(signature.bytes);
}

// What both kinds begin and end with: magic, version, signature.
struct Envelope {
  std::span<const uint8_t> content;  // between version and signature
  std::span<const uint8_t> signed_;  // all before the signature
  Signature signature;
};

Result<Envelope> open(std::span<const uint8_t> bytes, std::string_view magic) {
  const size_t head = magic.size() + sizeof(uint16_t);
  Envelope envelope;
  const size_t tail = envelope.signature.bytes.size();
  if (bytes.size() < head + tail ||
      !std::ranges::equal(bytes.first(magic.size()), as_bytes(magic))) {
    return fail(FailureKind::kCorruptPayload, "not a message between coordinator and participant");
  }
  ByteReader in(bytes.subspan(magic.size()));
  const int version = in.get<uint16_t>();
  if (version != kProtocolVersion) {
    return fail(FailureKind::kCorruptPayload,
                fmt::format("a message of protocol version {}; this program speaks version {}",
                            version, kProtocolVersion));
  }
  envelope.signed_ = bytes.first(bytes.size() - tail);
  envelope.content = envelope.signed_.subspan(head);
  std::ranges::copy(bytes.last(tail), envelope.signature.bytes.begin());
  return envelope;
}

template <size_t size>
std::array<uint8_t, size> get_array(ByteReader& in) {
  std::array<uint8_t, size> out{};
  const auto raw = in.get_bytes(size);
  if (raw.size() == size) std::ranges::copy(raw, out.begin());
  return out;
}

Bytes rest(ByteReader& in) {
  const auto raw = in.get_bytes(in.remaining());
  return {raw.begin(), raw.end()};
}

tl::unexpected<Failure> malformed(const char* what) {
  return fail(FailureKind::kCorruptPayload, fmt::format("a malformed {}", what));
}

tl::unexpected<Failure> forged(const char* what) {
  return fail(FailureKind::kCorruptPayload,
              fmt::format("a {} without the expected signature", what));
}

}  // namespace

Nonce make_nonce() {
  const Seed random = make_seed();
  Nonce nonce;
  std::copy_n(random.begin(), nonce.size(), nonce.begin());
  return nonce;
}

Bytes encode_request(const Request& request, const Signer& requester) {
  Bytes bytes;
  ByteWriter out(bytes);
  begin(out, kRequestMagic);
  out.put(static_cast<uint8_t>(request.what));
  out.put_bytes(request.nonce);
  out.put_bytes(request.run.bytes);
  out.put_bytes(request.requester.bytes);
  out.put_bytes(request.body);
  sign(bytes, requester);
  return bytes;
}

Bytes encode_answer(const Answer& answer, const Signer& coordinator) {
  Bytes bytes;
  ByteWriter out(bytes);
  begin(out, kAnswerMagic);
  out.put(static_cast<uint8_t>(answer.granted));
  out.put_bytes(answer.nonce);
  out.put_bytes(answer.body);
  sign(bytes, coordinator);
  return bytes;
}

Result<Request> decode_request(std::span<const uint8_t> bytes, const PublicKey& run) {
  const auto envelope = open(bytes, kRequestMagic);
  if (!envelope) return tl::unexpected(envelope.error());
  ByteReader in(envelope->content);
  Request request;
  const auto what = in.get<uint8_t>();
  request.what = static_cast<RequestKind>(what);
  request.nonce = get_array<sizeof(Nonce)>(in);
  request.run.bytes = get_array<32>(in);
  request.requester.bytes = get_array<32>(in);
  request.body = rest(in);
  const bool known = what >= static_cast<uint8_t>(RequestKind::kEnrol) &&
                     what <= static_cast<uint8_t>(RequestKind::kRecipe);
  if (!in.ok() || !known) return malformed("request");
  if (request.run != run || !verify(request.requester, envelope->signed_, envelope->signature)) {
    return forged("request");
  }
  return request;
}

Result<Answer> decode_answer(std::span<const uint8_t> bytes, const PublicKey& run) {
  const auto envelope = open(bytes, kAnswerMagic);
  if (!envelope) return tl::unexpected(envelope.error());
  ByteReader in(envelope->content);
  Answer answer;
  const auto granted = in.get<uint8_t>();
  answer.granted = granted == 1;
  answer.nonce = get_array<sizeof(Nonce)>(in);
  answer.body = rest(in);
  if (!in.ok() || granted > 1) return malformed("answer");
  if (!verify(run, envelope->signed_, envelope->signature)) return forged("answer");
  return answer;
}

}  // namespace thinwire::hosts

#include "thinwire/hosts/request_message.h"

#include <algorithm>

#include "thinwire/base/signed_message.h"

namespace thinwire::hosts {
namespace {

constexpr MessageFormat kRequest{"TWRQ", kProtocolVersion, "a request"};
constexpr MessageFormat kAnswer{"TWAN", kProtocolVersion, "an answer"};
constexpr const char* kMalformed = "its fields are not those of its kind";
constexpr const char* kForged = "it does not have the expected signature";

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
  begin_message(bytes, kRequest);
  out.put(static_cast<uint8_t>(request.what));
  out.put_bytes(request.nonce);
  out.put_bytes(request.run.bytes);
  out.put_bytes(request.requester.bytes);
  out.put_bytes(request.body);
  sign_message(bytes, requester);
  return bytes;
}

Bytes encode_answer(const Answer& answer, const Signer& coordinator) {
  Bytes bytes;
  ByteWriter out(bytes);
  begin_message(bytes, kAnswer);
  out.put(static_cast<uint8_t>(answer.granted));
  out.put_bytes(answer.nonce);
  out.put_bytes(answer.body);
  sign_message(bytes, coordinator);
  return bytes;
}

Result<Request> decode_request(std::span<const uint8_t> bytes, const PublicKey& run) {
  const auto message = open_message(bytes, kRequest);
  if (!message) return tl::unexpected(message.error());
  ByteReader in(message->content);
  Request request;
  const auto what = in.get<uint8_t>();
  request.what = static_cast<RequestKind>(what);
  request.nonce = get_array<sizeof(Nonce)>(in);
  request.run.bytes = get_array<32>(in);
  request.requester.bytes = get_array<32>(in);
  request.body = rest(in);
  const bool known = what >= static_cast<uint8_t>(RequestKind::kEnrol) &&
                     what <= static_cast<uint8_t>(RequestKind::kPlace);
  if (!in.ok() || !known) return not_a_message(kRequest, kMalformed);
  if (request.run != run || !verify(request.requester, message->signed_part, message->signature)) {
    return not_a_message(kRequest, kForged);
  }
  return request;
}

Result<Answer> decode_answer(std::span<const uint8_t> bytes, const PublicKey& run) {
  const auto message = open_message(bytes, kAnswer);
  if (!message) return tl::unexpected(message.error());
  ByteReader in(message->content);
  Answer answer;
  const auto granted = in.get<uint8_t>();
  answer.granted = granted == 1;
  answer.nonce = get_array<sizeof(Nonce)>(in);
  answer.body = rest(in);
  if (!in.ok() || granted > 1) return not_a_message(kAnswer, kMalformed);
  if (!verify(run, message->signed_part, message->signature)) {
    return not_a_message(kAnswer, kForged);
  }
  return answer;
}

}  // namespace thinwire::hosts

// libFuzzer target of what a NATS server says, and of what a member can make it say (preset fuzz):
// answers and notices of JetStream, and headers and subjects of messages. The first byte says
// which.
#include <string>
#include <string_view>
#include <vector>

#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/transport/nats/jetstream.h"
#include "thinwire/transport/nats/nats_answers.h"

namespace {

using namespace thinwire::transport;  // NOLINT(google-build-using-namespace)

constexpr std::string_view kStore = "run-log-ledger";

// Whatever is no answer has a reason that a terminal can show in a line or two.
template <typename Value>
void take_answer(const thinwire::Result<Value>& answer) {
  if (!answer) require(!answer.error().message.empty() && answer.error().message.size() < 300);
}

// Who cannot answer has not answered.
void take_notice(std::span<const uint8_t> bytes) {
  (void)is_election_notice(bytes);
  if (is_unavailable(bytes)) require(!parse_answer(bytes) && !parse_last_sequence(bytes));
}

// How many values of a header there are, then each: its length, 1 byte, and its text.
std::vector<std::string> read_values(thinwire::ByteReader& input) {
  std::vector<std::string> values(input.get<uint8_t>() % 3);
  for (std::string& value : values) {
    const auto text = input.get_bytes(input.get<uint8_t>());
    value.assign(text.begin(), text.end());
  }
  return values;
}

void take_message(std::span<const uint8_t> bytes) {
  thinwire::ByteReader input(bytes);
  NatsMessage message;
  message.status = read_values(input);
  message.stream = read_values(input);
  message.sequence = read_values(input);
  const auto subject = input.get_bytes(input.get<uint8_t>());
  message.subject.assign(subject.begin(), subject.end());
  const auto body = input.get_bytes(input.remaining());
  message.body.assign(body.begin(), body.end());
  const auto sequence = announced_sequence(message, kStore);
  require(!sequence || (message.stream == std::vector<std::string>{std::string(kStore)} &&
                        message.sequence.size() == 1));
  // Nothing that was stored speaks for the server, or for whomever the subject names.
  const bool speaks = is_missing(message) || is_unserved(message) || is_election(message);
  const std::string author = author_of_message(message);
  if (!message.stream.empty()) require(!speaks && author.empty());
  require(author.find('.') == author.npos);
}

}  // namespace

FUZZ_TARGET(answer)(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      take_answer(parse_last_sequence(bytes));
      take_answer(parse_stored_count(bytes));
      take_answer(parse_stored_blobs(bytes, NatsSubjects("run"), "holder"));
      take_answer(parse_listed_stores(bytes));
      take_answer(parse_site(bytes));
      break;
    case 1:
      take_answer(parse_made(bytes));
      break;
    case 2:
      take_notice(bytes);
      break;
    default:
      take_message(bytes);
  }
  return 0;
}

#include "thinwire/transport/nats/nats_answers.h"

#include <charconv>

namespace thinwire::transport {
namespace {

std::optional<uint64_t> number_in(std::string_view text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace

bool has_status(const NatsMessage& message, std::string_view status) {
  return message.stream.empty() && message.status.size() == 1 && message.status[0] == status;
}

bool is_missing(const NatsMessage& message) { return has_status(message, "404"); }

std::optional<uint64_t> announced_sequence(const NatsMessage& message, std::string_view store) {
  const bool own =
      message.stream.size() == 1 && message.sequence.size() == 1 && message.stream[0] == store;
  return own ? number_in(message.sequence[0]) : std::nullopt;
}

Result<uint64_t> sequence_in(const NatsMessage& message, std::string_view store) {
  if (is_missing(message)) return 0;
  if (const auto sequence = announced_sequence(message, store)) return *sequence;
  return fail(FailureKind::kRefused, "the server does not say where its record is");
}

std::optional<uint64_t> number_of(const std::string& subject) {
  return number_in(std::string_view(subject).substr(subject.rfind('.') + 1));
}

std::string author_of(const std::string& subject) {
  const size_t end = subject.rfind('.');
  if (end == subject.npos || end == 0) return "";
  const size_t begin = subject.rfind('.', end - 1) + 1;
  return subject.substr(begin, end - begin);
}

std::string speaker_of(const NatsMessage& message) {
  return message.stream.empty() ? author_of(message.subject) : "";
}

}  // namespace thinwire::transport

#include "thinwire/transport/nats/nats_answers.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

#include "thinwire/base/json.h"
#include "thinwire/transport/nats/jetstream.h"

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

bool is_unserved(const NatsMessage& message) {
  return has_status(message, "503") || (message.stream.empty() && is_unavailable(message.body));
}

bool is_election(const NatsMessage& message) {
  return message.stream.empty() && is_election_notice(message.body);
}

std::optional<uint64_t> announced_sequence(const NatsMessage& message, std::string_view store) {
  const bool own =
      message.stream.size() == 1 && message.sequence.size() == 1 && message.stream[0] == store;
  return own ? number_in(message.sequence[0]) : std::nullopt;
}

std::string print_place(const std::string& inbox, const AnswerPlace& place) {
  const std::string first = fmt::format("{}.{}", inbox, place.number);
  return place.sending == 0 ? first : fmt::format("{}-{}", first, place.sending);
}

std::string request_of(const std::string& subject) {
  const size_t dot = subject.rfind('.');
  return dot == subject.npos ? subject : subject.substr(0, subject.find('-', dot));
}

std::optional<AnswerPlace> parse_place(std::string_view subject) {
  const std::string_view token = subject.substr(subject.rfind('.') + 1);
  const size_t dash = token.find('-');
  const auto number = number_in(token.substr(0, dash));
  const auto sending = dash == token.npos ? 0 : number_in(token.substr(dash + 1));
  if (!number || !sending) return std::nullopt;
  return AnswerPlace{*number, *sending};
}

std::string author_of(const std::string& subject) {
  const size_t end = subject.rfind('.');
  if (end == subject.npos || end == 0) return "";
  const size_t begin = subject.rfind('.', end - 1) + 1;
  return subject.substr(begin, end - begin);
}

std::string author_of_message(const NatsMessage& message) {
  return message.stream.empty() ? author_of(message.subject) : "";
}

}  // namespace thinwire::transport

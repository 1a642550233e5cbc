#include "thinwire/links/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "thinwire/base/error.h"
#include "thinwire/config/values.h"

namespace thinwire::links {
namespace {

constexpr double kBitsPerByte = 8;

double line_seconds(double bytes, double bit_s, double loss) {
  return bytes == 0 ? 0 : bytes * kBitsPerByte / (bit_s * (1 - loss));
}

Member member_of(const config::LinksSection& section) {
  return {{section.up_bit_s, section.down_bit_s, section.delay_s, section.loss}, section.step_s};
}

}  // namespace

double up_seconds(const Link& link, double bytes) {
  return line_seconds(bytes, link.up_bit_s, link.loss);
}

double down_seconds(const Link& link, double bytes) {
  return line_seconds(bytes, link.down_bit_s, link.loss);
}

double transfer_seconds(const Link& link, double bytes_sent, double bytes_received,
                        double round_trips) {
  return std::max(up_seconds(link, bytes_sent), down_seconds(link, bytes_received)) +
         round_trips * link.delay_s;
}

double stored_seconds(const Link& link, double bytes_sent, double bytes_received,
                      double round_trips) {
  return up_seconds(link, bytes_sent) + down_seconds(link, bytes_received) +
         round_trips * (kStoringDelays + kFetchingDelays) * link.delay_s;
}

std::vector<Member> members_of(const config::LinksSection& section, int members) {
  std::vector<config::LinksSection> sections(static_cast<size_t>(members), section);
  for (const std::string& entry : section.members) {
    const size_t dot = entry.find('.');
    const size_t equals = entry.find('=');
    size_t member = 0;
    const auto number =
        std::from_chars(entry.data(), entry.data() + std::min(dot, entry.size()), member);
    if (dot == std::string::npos || equals == std::string::npos || equals < dot ||
        number.ec != std::errc() || number.ptr != entry.data() + dot) {
      throw UsageError(
          fmt::format("[links] members must be like \"0.up_bit_s=5M\", got \"{}\"", entry));
    }
    if (member >= sections.size()) {
      throw UsageError(fmt::format("[links] members: \"{}\" names member {}, but there are {}",
                                   entry, member, members));
    }
    config::Fields fields;
    sections[member].describe(fields);
    const std::string name = entry.substr(dot + 1, equals - dot - 1);
    const auto field = std::ranges::find_if(fields.all(), [&](const config::Field& one) {
      return one.name == name && std::holds_alternative<double*>(one.target);
    });
    if (field == fields.all().end()) {
      throw UsageError(fmt::format(
          "[links] members: \"{}\" must set up_bit_s, down_bit_s, delay_s, loss or step_s", entry));
    }
    config::assign(*field, "links.members", config::Value(entry.substr(equals + 1)));
  }
  std::vector<Member> all;
  all.reserve(sections.size());
  for (const config::LinksSection& one : sections) all.push_back(member_of(one));
  return all;
}

}  // namespace thinwire::links

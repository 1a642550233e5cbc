#include "thinwire/plan/members.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/method/within.h"

namespace thinwire::plan {
namespace {

constexpr double kMost = 1e24;
constexpr double kMinFlops = 1;
constexpr double kMinLine = 1;  // bit/s

std::string name_of(const MemberSection& section, size_t index) {
  return section.name.empty() ? fmt::format("member {}", index + 1) : section.name;
}

double flops_of(const MemberSection& section, const std::string& name, double flops_per_token) {
  const bool by_gpu = !section.gpu.empty();
  if ((section.flops > 0) + (section.tokens_per_second > 0) + by_gpu != 1) {
    throw UsageError(fmt::format(
        "[member] {}: exactly one of flops, tokens_per_second, speed and gpu must be given, got "
        "flops {}, tokens_per_second {} and gpu \"{}\"; thinwire bench speed measures it",
        name, section.flops, section.tokens_per_second, section.gpu));
  }
  double flops = section.flops > 0 ? section.flops : section.tokens_per_second * flops_per_token;
  if (by_gpu) flops = gpu_flops(section.gpu);
  if (flops >= kMinFlops && flops <= kMost) return flops;
  throw UsageError(fmt::format("[member] {}: its speed must be >= {} and <= {} FLOP/s, got {}",
                               name, kMinFlops, kMost, flops));
}

void check_sites(std::span<const Member> members) {
  for (const Member& one : members) {
    for (const Member& other : members) {
      if (one.site.empty() || one.site != other.site) continue;
      if (one.link.up_bit_s == other.link.up_bit_s && one.link.down_bit_s == other.link.down_bit_s)
        continue;
      throw UsageError(
          fmt::format("[member] {} and {} share the line of site {}, so up_bit_s and down_bit_s "
                      "must be equal, got {}/{} and {}/{}",
                      one.name, other.name, one.site, one.link.up_bit_s, one.link.down_bit_s,
                      other.link.up_bit_s, other.link.down_bit_s));
    }
  }
}

int64_t sharing_line(std::span<const Member> members, const Member& one) {
  if (one.site.empty()) return 1;
  int64_t count = 0;
  for (const Member& other : members) count += other.site == one.site ? other.count : 0;
  return count;
}

}  // namespace

void MemberSection::describe(config::Fields& fields) {
  fields.text("name", name, "Name of the group.");
  fields.text("site", site,
              "Site whose members all share one line; empty: each member has its own line.");
  fields.integer("count", count, "", 1, 1'000'000, "Number of equal members in this group.");
  fields.number(
      "flops", flops, "FLOP/s", 0, kMost,
      "Floating-point operations per second that a member actually achieves in training.");
  fields.number("tokens_per_second", tokens_per_second, "tokens/s", 0, kMost,
                "Tokens per second that a member trains on alone, with the recipe's model.");
  fields.text("speed", speed, "File with what `thinwire bench speed --json` printed there.");
  fields.text("gpu", gpu,
              "Its GPU, or the kind of Mac, such as \"RTX 4090\": taken to achieve 0.4 of the peak "
              "that its maker publishes.");
  fields.number("memory_bytes", memory_bytes, "B", 0, kMost, "Memory; 0: unknown.");
  fields.number("up_bit_s", up_bit_s, "bit/s", kMinLine, kMost, "Upload rate of the line.");
  fields.number("down_bit_s", down_bit_s, "bit/s", kMinLine, kMost, "Download rate of the line.");
  fields.number("delay_s", delay_s, "s", 0, 1e6, "One-way delay.");
  fields.number("watts", watts, "W", 0, kMost, "Power drawn while the run lasts.");
  fields.number("price_per_hour", price_per_hour, "", 0, kMost,
                "Price per member and hour, in any currency.");
}

std::vector<Member> resolve_members(std::span<const MemberSection> sections,
                                    double flops_per_token) {
  std::vector<Member> members;
  for (size_t i = 0; i < sections.size(); ++i) {
    const MemberSection& section = sections[i];
    const std::string name = name_of(section, i);
    members.push_back({name,
                       section.site,
                       section.count,
                       flops_of(section, name, flops_per_token),
                       section.memory_bytes,
                       {section.up_bit_s, section.down_bit_s, section.delay_s},
                       section.watts,
                       section.price_per_hour});
  }
  check_sites(members);
  return members;
}

int64_t member_count(std::span<const Member> members) {
  int64_t count = 0;
  for (const Member& member : members) count += member.count;
  return count;
}

int64_t site_clusters(std::span<const Member> members) {
  std::vector<int64_t> sizes;
  std::string_view site;  // of the last member
  for (const Member& member : members) {
    if (member.site.empty()) {
      sizes.insert(sizes.end(), static_cast<size_t>(member.count), 1);
    } else if (member.site == site) {
      sizes.back() += member.count;
    } else {
      sizes.push_back(member.count);
    }
    site = member.site;
  }
  const method::Clusters clusters{static_cast<int>(member_count(members)),
                                  static_cast<int>(sizes.size())};
  if (clusters.count < 2 || clusters.count == clusters.members) return 0;
  for (int cluster = 0; cluster < clusters.count; ++cluster) {
    if (clusters.size(cluster) != sizes[static_cast<size_t>(cluster)]) return 0;
  }
  return clusters.count;
}

LineTime slowest_line(std::span<const Member> members, const Exchange& exchange) {
  const int64_t all = member_count(members);
  LineTime slowest;
  for (size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    const int64_t here = sharing_line(members, member);
    if (member.count == 0) continue;
    if (here == all && !exchange.stored) continue;  // nobody is elsewhere
    const double up = static_cast<double>(here) * exchange.sent_bytes;
    const double elsewhere = exchange.stored || all == 1
                                 ? 1
                                 : static_cast<double>(all - here) / static_cast<double>(all - 1);
    const double down = static_cast<double>(here) * exchange.received_bytes * elsewhere;
    const auto time = exchange.stored ? links::stored_seconds : links::transfer_seconds;
    const double seconds = time(member.link, up, down, exchange.round_trips);
    if (seconds <= slowest.seconds) continue;
    slowest = {seconds, i, up / member.link.up_bit_s >= down / member.link.down_bit_s};
  }
  return slowest;
}

}  // namespace thinwire::plan

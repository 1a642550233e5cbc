#include "thinwire/hosts/run_summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "thinwire/base/json.h"
#include "thinwire/base/units.h"

namespace thinwire::hosts {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

void write_run_summary(const fs::path& file, const events::Summary& summary,
                       const std::vector<MemberStatus>& members) {
  Json json = parse_json<Json>(events::print_summary(summary));
  Json& all = json["members"] = Json::array();
  for (const MemberStatus& member : members) {
    all.push_back({{"id", member.id},
                   {"key", member.key},
                   {"machine", member.machine},
                   {"rows", member.contributed.rows},
                   {"bytes", member.contributed.bytes},
                   {"hours", member.contributed.seconds / 3600}});
  }
  write_file(file, print_json(json, {.indent = 2}) + "\n");
}

std::vector<std::string> describe_contributions(const std::vector<MemberStatus>& members) {
  std::vector<std::string> lines;
  for (const MemberStatus& member : members) {
    const Contributed& one = member.contributed;
    if (one.rows == 0) continue;
    const std::string& label = member.machine.empty() ? member.key : member.machine;
    lines.push_back(fmt::format("member {} ({}) contributed {} in {} of computing, and sent {}",
                                member.id, label, counted(one.rows, "row"),
                                format_seconds(one.seconds),
                                format_bytes(static_cast<double>(one.bytes))));
  }
  return lines;
}

}  // namespace thinwire::hosts

// Who trains together, for the planner: groups of equal machines, their speed, memory and lines.
// docs/planner.md describes the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/config/fields.h"
#include "thinwire/links/links.h"

namespace thinwire::plan {

// A table [[member]] of a members file.
struct MemberSection final : config::SectionOf<MemberSection> {
  std::string name;
  std::string site;  // empty: each member has its own line
  int64_t count = 1;
  double flops = 0;              // FLOP/s actually achieved; 0: not given
  double tokens_per_second = 0;  // of the recipe's model; 0: not given
  std::string speed;             // file that `thinwire bench speed --json` wrote
  std::string gpu;               // whose speed is known (gpu_flops)
  double memory_bytes = 0;       // 0: unknown
  double up_bit_s = 10e6;
  double down_bit_s = 100e6;
  double delay_s = 0.02;
  double watts = 0;
  double price_per_hour = 0;
  void describe(config::Fields& fields) override;
};

// A group of equal members.
struct Member {
  std::string name;
  std::string site;
  int64_t count = 1;
  double flops = 0;  // FLOP/s that each actually achieves
  double memory_bytes = 0;
  links::Link link;
  double watts = 0;
  double price_per_hour = 0;
};

// The share of its published peak that a GPU is taken to achieve in training, unless it was
// measured
// (`thinwire bench speed`). On an H100, with 350 M parameters, compiled PyTorch achieves 0.40 and
// our step 0.35 (bench/results/2026-11-26-gpu.md).
inline constexpr double kGpuEfficiency = 0.4;
// The FLOP/s that a GPU or a Mac of this name, such as "RTX 4090", is taken to achieve. Throws
// UsageError that names those known for any other.
double gpu_flops(const std::string& name);

// The groups with their speed as FLOP/s; tokens_per_second is converted with `flops_per_token`.
// Throws UsageError naming the member unless exactly one of flops, tokens_per_second and gpu is
// given, or if members of one site have different lines. `speed` must already have been read.
std::vector<Member> resolve_members(std::span<const MemberSection> sections,
                                    double flops_per_token);

int64_t member_count(std::span<const Member> members);

// The number of clusters, as in method::Clusters, that coincide with the members' sites in their
// order; a member without a site is a site of its own. 0 if sites are not such clusters, if there
// is only one site, or if none has two members.
int64_t site_clusters(std::span<const Member> members);

// What one exchange sends over each member's line.
struct Exchange {
  double sent_bytes = 0;
  double received_bytes = 0;
  double round_trips = 0;  // dependent exchanges
  bool stored = false;     // by a server, which all of it crosses lines to (RunSchedule::stored)
};

// The line on which an exchange takes longest.
struct LineTime {
  double seconds = 0;
  size_t member = 0;  // its group
  bool up = false;    // the direction that takes longer
};

// Members of one site share its line, and what they send each other does not cross it: with s of m
// members there, s payloads go up and s (m-s)/(m-1) times what a member receives comes down.
LineTime slowest_line(std::span<const Member> members, const Exchange& exchange);

}  // namespace thinwire::plan

// What a token lets a program ask of a run (thinwire/run_status.h, thinwire/machine_check.h).
#include "thinwire/run_status.h"

#include <utility>

#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_status.h"
#include "thinwire/machine_check.h"

namespace thinwire {

RunStatus ask_run_status(const std::string& address, const std::string& token, double wait_s) {
  hosts::Access access = hosts::parse_access(address, token, {});
  access.wait_s = wait_s;
  hosts::RunStatus status = hosts::ask_status(access);
  RunStatus told{.name = std::move(status.name),
                 .method = std::move(status.method),
                 .step = status.step,
                 .steps = status.steps,
                 .finished = status.finished,
                 .digest = std::move(status.digest),
                 .waits_for = std::move(status.waits_for),
                 .members = {},
                 .left_out = status.left_out};
  for (hosts::MemberStatus& one : status.members) {
    told.members.push_back({.id = one.id,
                            .key = std::move(one.key),
                            .machine = std::move(one.machine),
                            .phase = std::move(one.phase),
                            .silent_seconds = one.silent_s,
                            .step_seconds = one.step_s,
                            .rows = one.contributed.rows,
                            .bytes = one.contributed.bytes,
                            .hours = one.contributed.hours(),
                            .refused = std::move(one.refused)});
  }
  return told;
}

std::vector<std::string> check_machine(const std::string& address, const std::string& token,
                                       const std::vector<std::string>& overrides,
                                       double memory_bytes) {
  return hosts::diagnose(hosts::parse_access(address, token, {}), overrides, memory_bytes);
}

}  // namespace thinwire

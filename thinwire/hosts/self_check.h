// What a machine checks before it joins a run: its link, whether its clock is right, whether the
// run fits into its memory, how fast it computes a step, and what the run requires of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/links/links.h"

namespace thinwire::hosts {

struct LinkReport {
  double round_trip_s = 0;
  double up_bytes_s = 0;
  double down_bytes_s = 0;
  double clock_ahead_s = 0;  // this machine's clock relative to the coordinator's
};

// Exchanges messages with the coordinator for about a second. The coordinator's own link limits the
// result, and so do `limits` within which this machine's traffic is to stay (0: no limit): then it
// exchanges little.
Result<LinkReport> measure_link(RequestClient& client, const links::Link& limits = {});

struct SelfCheck {
  std::optional<LinkReport> link;  // nothing: the run has a mailbox, and the link is not known
  double needed_bytes = 0;
  double free_bytes = 0;  // 0: unknown
  double step_s = 0;      // to compute one worker's rows of a step; 0: not known (external model)
  Cores cores;            // of this machine
  // What the run requires, per training step on average.
  double sent_bytes = 0;
  double received_bytes = 0;
  double transfer_s = 0;              // over this link; 0: not known
  std::vector<std::string> warnings;  // a sentence each; empty: all is well
};

struct SelfCheckOptions {
  int64_t steps = 1;     // timed
  double cap_bytes = 0;  // most memory that the run may use here; 0: what the machine has
  int ranks = 1;         // of its site, which compute gradients with it (train/site.h)
  bool audits = false;   // of an auditor (docs/audits.md), which sends no contributions
  events::MessageSink message = events::tell_nobody;
};

// Throws UsageError if the run needs more memory than options.cap_bytes. `recipe`: resolved, with
// this machine's own fields.
void check_cap(const config::Recipe& recipe, const SelfCheckOptions& options);

// Throws UsageError as check_cap does.
SelfCheck check_self(const config::Recipe& recipe, const std::optional<LinkReport>& link,
                     const SelfCheckOptions& options);

// The report as lines to print, warnings last.
std::vector<std::string> describe(const SelfCheck& check, const config::Recipe& recipe);

}  // namespace thinwire::hosts

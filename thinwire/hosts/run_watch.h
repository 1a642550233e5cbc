// What the live page of a served run shows (page/live_run.h), from what the coordinator knows: the
// ledger, and what members were last heard to say.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"
#include "thinwire/page/live_run.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::hosts {

// What member `id` does now. `now`: seconds of the clock of CoordinatorHost::tick. An active member
// computes until it announces its contribution to the first round in which it has rows, sends it
// until the coordinator has it, and then waits for those who have not come so far.
page::MemberNow member_now(int id, const membership::State& state,
                           const std::map<int, serve::MemberNews>& news, double now);

// Takes what happens and tells the page.
class RunWatch {
 public:
  // `recipe`: resolved. All references must outlive it.
  RunWatch(const config::Recipe& recipe, page::LiveRun& page) : recipe_(recipe), page_(page) {}

  // Called by the thread that ticks the coordinator: CoordinatorHost's hook of the same name.
  // `now` as for member_now.
  void record(const membership::Record& record, bool earlier, double now);
  // From any one thread, several times a second.
  void look(const serve::CoordinatorHost& host, double now);
  // What is told to the coordinator's terminal: any thread.
  void say(const std::string& text) { page_.add_fault({}, text); }

 private:
  struct Opened {
    membership::Opening opening;
    double at = 0;
    bool earlier = false;
  };

  void close(const membership::Closing& closing, bool earlier, double now);
  void note(const membership::PhaseChange& change);

  const config::Recipe& recipe_;
  page::LiveRun& page_;
  std::map<uint64_t, Opened> open_;  // rounds
};

}  // namespace thinwire::hosts

// Says how a group of machines should train a recipe: four at homes, with lines of 10 and 100
// Mbit/s.
//
//   plan_example RECIPE [table.field=value ...]
#include <thinwire/planning.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int count, char** words) try {
  const thinwire::Recipe recipe(
      count > 1 ? words[1] : "",
      std::vector<std::string>(words + (count > 1 ? 2 : 1), words + count));
  thinwire::PlanMember home;
  home.count = 4;
  home.flops = 200e9;
  home.up_bit_s = 10e6;
  home.down_bit_s = 100e6;
  const thinwire::RunPlan plan = thinwire::plan_run(recipe, {home});
  for (const thinwire::PlannedMethod& method : plan.methods) {
    if (!method.runs) continue;
    std::printf("%-12s %-40s %10.0f s %12.0f B a step\n", method.method.c_str(),
                method.setting.c_str(), method.seconds, method.sent_bytes);
  }
  if (!plan.recommended) return std::puts("no method can be recommended"), 1;
  const thinwire::PlannedMethod& best = plan.methods[*plan.recommended];
  std::printf("recommended: sync.method=%s %s\n", best.method.c_str(), best.setting.c_str());
  for (const std::string& reason : plan.reasons) std::printf("  %s\n", reason.c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

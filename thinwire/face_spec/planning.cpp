#include "thinwire/planning.h"

#include <utility>

#include "thinwire/base/file.h"
#include "thinwire/config/table_list.h"
#include "thinwire/face_spec/recipe_parts.h"
#include "thinwire/plan/method_plan.h"

namespace thinwire {
namespace {

// Through the text of a members file, whose reader checks the ranges.
std::vector<plan::Member> members_of(const std::vector<PlanMember>& members,
                                     double flops_per_token) {
  std::string text;
  for (const PlanMember& one : members) {
    plan::MemberSection section;
    section.name = one.name;
    section.site = one.site;
    section.count = one.count;
    section.flops = one.flops;
    section.gpu = one.gpu;
    section.memory_bytes = one.memory_bytes;
    section.up_bit_s = one.up_bit_s;
    section.down_bit_s = one.down_bit_s;
    section.delay_s = one.delay_s;
    section.watts = one.watts;
    section.price_per_hour = one.price_per_hour;
    text += config::print_table("member", section);
  }
  return plan::resolve_members(
      config::parse_tables<plan::MemberSection>(text, "the plan's members", "member"),
      flops_per_token);
}

PlannedMethod planned(const plan::MethodCost& cost) {
  PlannedMethod method;
  method.method = cost.method;
  method.setting = cost.setting;
  method.runs = cost.runs;
  method.sent_bytes = cost.sent_bytes;
  method.received_bytes = cost.received_bytes;
  method.step_seconds = cost.step_seconds;
  method.seconds = cost.seconds;
  method.utilization = cost.utilization;
  method.kilowatt_hours = cost.kilowatt_hours;
  method.price = cost.price;
  method.memory_bytes = cost.memory.total();
  method.fits = cost.too_small.empty();
  method.loss = cost.loss.nats;
  method.loss_basis = cost.loss.basis;
  method.bottleneck = cost.bottleneck;
  return method;
}

}  // namespace

RunPlan plan_run(const Recipe& recipe, const std::vector<PlanMember>& members, double tolerance) {
  const Recipe::Parts& parts = recipe.parts();
  plan::MethodPlan question;
  question.recipe = parts.recipe;
  question.model = plan::planned_model(question.recipe);
  question.members = members_of(members, question.model.flops_per_token);
  question.program_bytes = static_cast<double>(resident_memory_bytes());
  const plan::MethodPlan answer =
      plan::plan_methods(std::move(question), {parts.file, parts.overrides, tolerance});
  RunPlan plan;
  for (const plan::MethodCost& cost : answer.costs) plan.methods.push_back(planned(cost));
  if (answer.recommended) {
    plan.recommended = answer.recommended->index;
    plan.reasons = answer.recommended->reasons;
  }
  for (const plan::Member& member : answer.idle) plan.idle.push_back(member.name);
  for (const plan::LeftOut& out : answer.candidates.left_out) {
    plan.left_out.emplace_back(out.method, out.reason);
  }
  return plan;
}

}  // namespace thinwire

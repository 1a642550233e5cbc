#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/member/member.h"

namespace thinwire::member {
namespace {

struct Refusal {
  std::vector<std::string> overrides;
  const char* message;
};

TEST(CheckHosted, RefusesWhatMembersCannotDoByName) {
  const std::vector<Refusal> refusals = {
      {{"sync.method=diloco", "sync.clusters=1", "sync.within=allreduce"},
       "[sync] within must be \"none\" for members on many hosts, got \"allreduce\""},
      {{"train.update=layer", "optim.clip_by=previous"}, "[train] update must be \"step\""},
      {{"optim.method=galore", "optim.gradients=projected"}, "[optim] gradients must be \"whole\""},
      {{"optim.method=galore", "optim.gradients=projected"},
       "or galore with galore.basis = \"seeded\""},
      {{"sync.method=diloco", "sync.absent=[\"1=2-3\"]"},
       "[sync] absent must be empty for members on many hosts, got [\"1=2-3\"]"},
      {{"links.step_s=1"}, "[links] step_s must be 0"}};
  for (const Refusal& refusal : refusals) {
    const config::Recipe recipe = tiny_recipe(test_folder(), refusal.overrides);
    EXPECT_THAT(tests::error_of([&] { check_hosted(recipe); }),
                testing::HasSubstr(refusal.message));
  }
  check_hosted(tiny_recipe(test_folder()));
  check_hosted(
      tiny_recipe(test_folder(), {"eval.patience=2", "eval.every=4", "checkpoint.best=true",
                                  "eval.tasks=[\"piqa\"]", "eval.data=\"x\""}));
  check_hosted(tiny_recipe(
      test_folder(), {"optim.method=galore", "optim.gradients=projected", "sync.method=diloco"}));
  check_hosted(tiny_recipe(
      test_folder(), {"optim.method=galore", "optim.gradients=projected", "galore.basis=seeded",
                      "sync.method=distro", "distro.update=adamw"}));
  check_hosted(tiny_recipe(test_folder(), {"optim.method=galore", "optim.gradients=projected",
                                           "galore.basis=seeded", "sync.method=allreduce"}));
}

}  // namespace
}  // namespace thinwire::member

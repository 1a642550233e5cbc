#include "thinwire/hosts/ask_run.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "thinwire/base/error.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/self_check.h"
#include "thinwire/hosts/shared_recipe.h"

namespace thinwire::hosts {
namespace {

constexpr int64_t kTimedSteps = 5;

// A connection made with a token, without enrolling a key.
class TokenConnection {
 public:
  explicit TokenConnection(const Access& access)
      : access_(access),
        signer_(make_signer(access.newcomer.seed)),
        courier_(connect(access, access.newcomer)),
        requests_(*courier_, access.founder, *signer_) {}

  RequestClient& requests() { return requests_; }
  std::string ask(RequestKind what) {
    const Result<Bytes> answer = requests_.ask(what, {}, access_.patience().answer_s);
    if (answer) return {answer->begin(), answer->end()};
    throw Error(fmt::format("the run at {}: {}", access_.address(), answer.error().message));
  }

 private:
  const Access& access_;
  const std::unique_ptr<Signer> signer_;
  const std::unique_ptr<transport::Courier> courier_;
  RequestClient requests_;  // destroyed first
};

}  // namespace

RunStatus ask_status(const Access& access) {
  TokenConnection connection(access);
  Result<RunStatus> status = read_status(connection.ask(RequestKind::kStatus));
  if (!status) throw Error(status.error().message);
  return std::move(*status);
}

std::vector<std::string> diagnose(const Access& access, const std::vector<std::string>& overrides,
                                  double memory_bytes) {
  check_local_overrides(overrides);
  TokenConnection connection(access);
  const config::Recipe recipe =
      member_recipe(connection.ask(RequestKind::kRecipe), overrides, {}, {});
  std::optional<LinkReport> link;
  if (!access.mailbox) {
    const Result<LinkReport> measured = measure_link(connection.requests());
    if (!measured) {
      throw Error("the link to the run cannot be measured: " + measured.error().message);
    }
    link = *measured;
  }
  return describe(check_self(recipe, link, {.steps = kTimedSteps, .cap_bytes = memory_bytes}),
                  recipe);
}

}  // namespace thinwire::hosts

#include "thinwire/member/privacy_loss.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/method/privacy/privacy.h"

namespace thinwire::member {

using Json = nlohmann::json;

uint64_t contributions_in(const fs::path& file) {
  if (!fs::exists(file)) return 0;
  const auto damaged = [&](const std::string& why) {
    return Error(fmt::format(
        "{} does not say how often this member has contributed: {}; restore it, or write "
        "{{\"contributions\": N}} into it, where N is at least the run's sums so far, which "
        "`thinwire status` has",
        file.string(), why));
  };
  try {
    const Json count = parse_json<Json>(read_text_file(file)).at("contributions");
    if (!count.is_number_unsigned()) throw damaged("contributions is " + count.dump());
    return count.get<uint64_t>();
  } catch (const Json::exception& problem) {
    throw damaged(problem.what());
  }
}

PrivacyLoss::PrivacyLoss(fs::path file, const config::PrivacySection& privacy,
                         const PrivacyLimits& limits)
    : file_(std::move(file)), privacy_(privacy), most_epsilon_(limits.most_epsilon) {
  const bool begun = fs::exists(file_);
  if (!begun && limits.has_trained) {
    throw Error(fmt::format(
        "{} is missing, although this folder's member has trained in the run: how often it has "
        "contributed is not known; restore it, or write {{\"contributions\": N}} into it, where N "
        "is at least the run's sums so far, which `thinwire status` has",
        file_.string()));
  }
  contributions_ = contributions_in(file_);
  if (!begun) write();
}

void PrivacyLoss::add() {
  const double epsilon = method::epsilon_of(privacy_, contributions_ + 1);
  if (most_epsilon_ > 0 && epsilon > most_epsilon_) {
    throw Error(fmt::format(
        "this member leaves the run: {}, and one more contribution would raise that to {:.4g}, "
        "above its limit of {:g} (--epsilon)",
        method::describe_privacy(privacy_, contributions_), epsilon, most_epsilon_));
  }
  ++contributions_;
  write();
}

void PrivacyLoss::write() const {
  const Json json = {{"contributions", contributions_},
                     {"noise", privacy_.noise},
                     {"sampling", privacy_.sampling},
                     {"delta", privacy_.delta},
                     {"epsilon", method::epsilon_of(privacy_, contributions_)}};
  write_file(file_, print_json(json, {.indent = 2}) + "\n");
}

}  // namespace thinwire::member

#include "thinwire/member/privacy_loss.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/method/privacy/privacy.h"

namespace thinwire::member {

using Json = nlohmann::json;

PrivacyLoss::PrivacyLoss(fs::path file, const config::PrivacySection& privacy)
    : file_(std::move(file)), privacy_(privacy) {
  if (!fs::exists(file_)) return;
  try {
    contributions_ = parse_json<Json>(read_text_file(file_)).at("contributions").get<uint64_t>();
  } catch (const Json::exception& problem) {
    throw Error(fmt::format("{} does not say how often this member has contributed: {}",
                            file_.string(), problem.what()));
  }
}

void PrivacyLoss::add() {
  ++contributions_;
  const double epsilon =
      method::epsilon_of(method::mechanism_of(privacy_), contributions_, privacy_.delta);
  const Json json = {{"contributions", contributions_},
                     {"noise", privacy_.noise},
                     {"sampling", privacy_.sampling},
                     {"delta", privacy_.delta},
                     {"epsilon", epsilon}};
  write_file(file_, print_json(json, {.indent = 2}) + "\n");
}

}  // namespace thinwire::member

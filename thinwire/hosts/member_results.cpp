#include "thinwire/hosts/member_results.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "thinwire/base/digest.h"
#include "thinwire/method/architectures/architectures.h"

namespace thinwire::hosts {

std::optional<uint64_t> MemberResults::digest() const {
  std::map<std::string, int> votes;
  for (const auto& [key, summary] : all_) ++votes[summary.digest];
  if (votes.empty()) return std::nullopt;
  const std::string& text =
      std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->first;
  uint64_t digest = 0;
  std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  return digest;
}

void MemberResults::take_means(Values events::Summary::*values, events::Summary& summary) const {
  for (auto& [name, value] : summary.*values) {
    double sum = 0;
    for (const auto& [key, one] : all_) {
      const auto own = (one.*values).find(name);
      const bool has = own != (one.*values).end();
      sum += has ? own->second : std::numeric_limits<double>::quiet_NaN();
    }
    value = sum / static_cast<double>(all_.size());
  }
}

events::Summary MemberResults::summarise(uint64_t digest) const {
  const auto mean = [&](double events::Summary::*field) {
    double sum = 0;
    for (const auto& [key, summary] : all_) sum += summary.*field;
    return sum / static_cast<double>(all_.size());
  };
  const auto specs = method::tensors_of(recipe_);
  events::Summary summary;
  summary.train_loss = std::numeric_limits<double>::quiet_NaN();
  if (!all_.empty()) {
    summary = all_.begin()->second;
    for (const auto field :
         {&events::Summary::train_loss, &events::Summary::bytes_sent_per_worker_step,
          &events::Summary::bytes_received_per_worker_step, &events::Summary::seconds,
          &events::Summary::seconds_over_links}) {
      summary.*field = mean(field);
    }
    take_means(&events::Summary::val_loss, summary);
    // Other scores are no means: those of the members do not tell the run's.
    std::erase_if(summary.scores, [](const auto& score) { return !score.first.ends_with(".acc"); });
    take_means(&events::Summary::scores, summary);
  }
  summary.name = recipe_.run.name;
  summary.method = recipe_.sync.method;
  summary.within = recipe_.sync.within;
  summary.workers = recipe_.train.workers;
  summary.steps = recipe_.train.steps;
  summary.tokens = recipe_.train.steps * recipe_.train.batch * recipe_.train.sequence;
  summary.params = method::parameter_count(specs);
  summary.params_non_embedding = method::non_embedding_count(specs);
  summary.digest = to_hex(digest);
  return summary;
}

}  // namespace thinwire::hosts

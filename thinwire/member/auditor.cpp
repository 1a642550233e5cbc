#include "thinwire/member/auditor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/method/combinations.h"
#include "thinwire/method/registry.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/sync/algorithm.h"
#include "thinwire/train/gradients.h"

namespace thinwire::member {
namespace {

constexpr double kMessageSeconds = 60;  // between messages to the user

// Sums over the parts of the weights that an operation concerns.
struct Products {
  double sent = 0;        // of squares
  double difference = 0;  // of squares of assigned - others
  double both = 0;        // of sent * (assigned - others)
};

Products products_of(const tensor::Arena& sent, const tensor::Arena& assigned,
                     const tensor::Arena& others, std::vector<tensor::GradientRange> ranges) {
  Products sums;
  if (ranges.empty()) ranges.push_back({.offset = 0, .count = sent.layout().total()});
  const auto s = sent.all(), a = assigned.all(), o = others.all();
  for (const tensor::GradientRange& range : ranges) {
    const auto begin = static_cast<size_t>(range.offset);
    for (size_t i = begin; i < begin + static_cast<size_t>(range.count); ++i) {
      const double difference = double{a[i]} - double{o[i]};
      sums.sent += double{s[i]} * double{s[i]};
      sums.difference += difference * difference;
      sums.both += double{s[i]} * difference;
    }
  }
  return sums;
}

// |sent - expected| / |expected|.
double relative_error(const tensor::Arena& sent, const tensor::Arena& expected) {
  const std::span<const float> s = sent.all(), e = expected.all();
  double error = 0, length = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    const double difference = double{s[i]} - double{e[i]};
    error += difference * difference;
    length += double{e[i]} * double{e[i]};
  }
  return std::sqrt(error / length);
}

void append(std::vector<uint64_t>& rows, const RowRange& range) {
  const size_t before = rows.size();
  rows.resize(before + range.count);
  std::iota(rows.begin() + static_cast<ptrdiff_t>(before), rows.end(), range.first);
}

}  // namespace

void check_audited(const config::Recipe& recipe) {
  sync::check_contributions_readable(method::sync_spec(recipe).method);
  method::check_command(recipe, method::Command::kAudit);
}

Auditor::Auditor(const AuditedRun& run, Follower& follower, uint64_t seed,
                 std::function<void(const std::string& text)> message)
    : run_(run),
      follower_(follower),
      message_(std::move(message)),
      random_(seed, 0),
      threads_(static_cast<int>(run.recipe.train.threads)),
      reader_(sync::make_contribution_reader(
          method::sync_spec(run.recipe, method::RunKind::kHosted).method, run.layout, threads_)),
      assigned_(run.layout),
      others_(run.layout),
      sent_(run.layout) {}

// Rounds that are closed already are only followed, so that an auditor that is slower than the
// members stays with them.
bool Auditor::wants(const Round& round) {
  settle();
  const uint64_t number = run_.plan.round_of(round.step);
  if (audited_ || begun_ == number) return false;
  begun_ = number;
  if (follower_.closing(number)) return false;
  const auto opening = follower_.opening(number);
  if (!opening || opening->first_step != round.step) return false;
  std::vector<int> members;
  for (const membership::Share& share : opening->roster) {
    if (share.rows.count > 0) members.push_back(share.member);
  }
  if (members.size() < 2) return false;
  audited_ = Audited{.opening = *opening, .member = members[random_.below(members.size())]};
  return true;
}

void Auditor::observe(const Round& round, model::Model& model) {
  const membership::Opening& opening = audited_->opening;
  std::vector<uint64_t> assigned, others;
  for (size_t step = 0; step < opening.steps.size(); ++step) {
    const Round one = run_.plan.step(opening, run_.id, opening.first_step + step);
    for (const RoundMember& member : one.roster) {
      append(member.id == audited_->member ? assigned : others, member.rows);
    }
  }
  audited_->weight = round.member(audited_->member).weight;
  audited_->rows = assigned.size();
  if (!reader_->stateless()) assigned = sample(std::move(assigned), kMaxComparedRows);
  audited_->compared = assigned.size();
  others = sample(std::move(others), std::min(assigned.size(), kMaxComparedRows));
  take_gradients(round, model, assigned, assigned_);
  take_gradients(round, model, others, others_);
}

void Auditor::take_gradients(const Round& round, model::Model& model,
                             const std::vector<uint64_t>& rows, tensor::Arena& gradients) const {
  const data::RowBlock block = run_.rows.read(rows);
  tensor::WholeGradients sink(gradients);
  train::accumulate_gradients(model,
                              {block.tokens,
                               run_.recipe.train.sequence,
                               method::rows_per_pass(run_.recipe.train),
                               {block.weights, block.begins},
                               train::counted_a_row(run_.rows, round.roster)},
                              sink);
}

// At most `count` of them, in their order: each is taken with the chance that is left for it.
std::vector<uint64_t> Auditor::sample(std::vector<uint64_t> rows, size_t count) {
  size_t left = rows.size(), wanted = std::min(count, left);
  std::erase_if(rows, [&](uint64_t) {
    const bool taken = random_.below(left--) < wanted;
    wanted -= taken ? 1 : 0;
    return !taken;
  });
  return rows;
}

void Auditor::settle() {
  if (!audited_) return;
  const auto closing = follower_.closing(audited_->opening.round);
  if (!closing) return;
  const Audited audited = *std::exchange(audited_, std::nullopt);
  for (const Commit& commit : closing->commits) {
    for (const Contribution& one : commit.contributions) {
      const bool is_audited = one.member == audited.member && one.round == closing->round;
      if (is_audited && one.bytes > 0) compare(audited, commit, one);
    }
  }
}

void Auditor::compare(const Audited& audited, const Commit& commit,
                      const Contribution& contribution) {
  const auto payload = follower_.payload(contribution);
  if (!payload || *payload == nullptr) return;
  const uint32_t fragment = commit.operation.fragment;
  const auto name = run_.plan.operation_of(contribution.round, fragment);
  codec::PayloadId id;
  id.run = run_.id;
  id.epoch = audited.opening.epoch;
  id.sender = static_cast<uint32_t>(contribution.member);
  id.round = name->round;
  if (!reader_->read(**payload, id, fragment, sent_)) return;  // the coordinator's host decoded it
  const Products sums = products_of(sent_, assigned_, others_, reader_->covered(fragment));
  const double lengths = std::sqrt(sums.sent * sums.difference);
  if (sums.difference == 0 || !std::isfinite(lengths)) return;
  membership::Audit audit;
  audit.member = audited.member;
  audit.round = contribution.round;
  audit.fragment = fragment;
  // Zeros have no effect.
  const double cosine = lengths == 0 ? 0 : sums.both / lengths;
  audit.effect =
      cosine * std::sqrt(static_cast<double>(audited.rows) / static_cast<double>(audited.compared));
  if (reader_->stateless()) {
    reader_->recompute(audited.weight, assigned_);
    const double error = relative_error(sent_, assigned_);
    if (std::isfinite(error)) audit.error = error;
  }
  follower_.report(audit);
  ++audits_;
  if (!message_ || (since_message_ && since_message_->seconds() < kMessageSeconds)) return;
  since_message_.emplace();
  message_(fmt::format("audited {} so far, the last by member {} in round {}",
                       counted(audits_, "contribution"), audit.member, audit.round));
}

}  // namespace thinwire::member

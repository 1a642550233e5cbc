#include "thinwire/serve/sum_maker.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "thinwire/base/nkey.h"

namespace thinwire::serve {
namespace {

constexpr double kNoticed = 1;  // s: sums that take no longer are not worth a choice
constexpr int kLeftToMembers = 15;

double moved(const SumChoice::Exchange& exchange) {
  return static_cast<double>(exchange.contributions * exchange.bytes + exchange.sum_bytes);
}

}  // namespace

void SumChoice::formed(const Exchange& exchange, double seconds) {
  seconds_a_byte_ = seconds / moved(exchange);
  left_to_members_ = 0;
}

// How much members can fetch from the server at the same time is not known, but it is at least what
// one of them can.
bool SumChoice::members_are_faster(const Exchange& exchange) const {
  const auto& [contributions, bytes, sum_bytes, down_bytes_s] = exchange;
  if (down_bytes_s <= 0) return false;
  const double seconds = seconds_a_byte_ * moved(exchange);
  const double more =
      static_cast<double>((contributions - 1) * bytes) - static_cast<double>(sum_bytes);
  return seconds > kNoticed && seconds > static_cast<double>(contributions) * more / down_bytes_s;
}

bool SumChoice::coordinator_forms(const Exchange& exchange) {
  if (!members_are_faster(exchange)) return true;
  if (left_to_members_ == kLeftToMembers) {
    left_to_members_ = 0;
    return true;
  }
  ++left_to_members_;
  return false;
}

namespace {

constexpr size_t kPartsAhead = 2;        // requested while another is being added
constexpr size_t kBegunRemembered = 64;  // sums

// The members whose contributions the operation expects: all of the roster but those that
// contributed nothing.
transport::Contributors contributors(const membership::Opening& opening, const Commit& commit) {
  transport::Contributors from;
  for (const membership::Share& share : opening.roster) {
    const Contribution* const one = contribution_of(commit, share.member, opening.round);
    if (one == nullptr || one->bytes > 0) from.push_back(share.member);
  }
  return from;
}

}  // namespace

void SumMaker::read(const membership::Record& record) {
  if (!rule_) return;
  if (record.closing) {
    const auto opening = openings_.find(record.closing->round);
    if (opening != openings_.end()) {
      for (const Commit& commit : record.closing->commits) {
        if (rule_->applies(commit)) waiting_.push_back({opening->second, commit});
      }
    }
    openings_.erase(openings_.begin(), openings_.upper_bound(record.closing->round));
    while (!waiting_.empty() &&
           waiting_.front().opening.round + kept_rounds() < record.closing->round) {
      waiting_.pop_front();
    }
  }
  for (const membership::Opening& opening : record.openings) openings_[opening.round] = opening;
}

std::vector<membership::Sum> SumMaker::tick(
    const membership::State& state, double now, const std::function<bool(const Sha256&)>& is_used,
    const std::function<double(const PublicKey&)>& down_bytes_s) {
  delete_old(state, is_used);
  std::vector<membership::Sum> left;
  for (; !waiting_.empty(); waiting_.pop_front()) {
    std::unique_ptr<Job> job = job_of(waiting_.front(), state);
    if (job == nullptr) continue;
    const Sha256 name = job->sum.contributions;
    if (is_left_to_members(*job, state, down_bytes_s)) {
      left.push_back(job->sum);
      left.back().bytes = 0;
    } else if (job_ == nullptr) {
      begin(std::move(job), now);
    } else {
      break;
    }
    begun_.push_back(name);
    if (begun_.size() > kBegunRemembered) begun_.pop_front();
  }
  return left;
}

// Null if its sum was begun before, or is of a history that is gone.
std::unique_ptr<SumMaker::Job> SumMaker::job_of(const Waiting& waiting,
                                                const membership::State& state) const {
  std::vector<Contribution> parts = sync::summed(waiting.commit);
  const Sha256 name = sync::digest_of(parts);
  if (std::ranges::find(begun_, name) != begun_.end()) return nullptr;
  for (const Contribution& one : parts) {
    if (!state.knows(one.member)) return nullptr;
  }
  // The mean of payloads is one whoever has contributed, and words are not scaled.
  const float factor =
      rule_->codec == nullptr || rule_->codec->add != nullptr
          ? 1
          : membership::mean_factor(plan_, waiting.opening,
                                    contributors(waiting.opening, waiting.commit), parts);
  auto job = std::make_unique<Job>();
  job->sum = {
      waiting.opening.round, waiting.commit.operation.fragment, name, rule_->format(), factor, {},
      rule_->bytes(parts)};
  for (const Contribution& one : parts) {
    job->shares.push_back(membership::share_of(plan_, waiting.opening, one));
    const PublicKey& key = state.members[static_cast<size_t>(one.member)].key;
    job->holders.push_back(participant_name(key));
  }
  job->parts = std::move(parts);
  return job;
}

bool SumMaker::is_left_to_members(const Job& job, const membership::State& state,
                                  const std::function<double(const PublicKey&)>& down_bytes_s) {
  if (rule_->who != config::Sums::kAuto) return false;
  double slowest = std::numeric_limits<double>::infinity();
  for (const Contribution& one : job.parts) {
    const PublicKey& key = state.members[static_cast<size_t>(one.member)].key;
    slowest = std::min(slowest, down_bytes_s(key));  // 0 if one is not known
  }
  SumChoice::Exchange exchange = job.exchange();
  exchange.down_bytes_s = slowest;
  return job_ == nullptr ? !choice_.coordinator_forms(exchange)
                         : choice_.members_are_faster(exchange);
}

void SumMaker::begin(std::unique_ptr<Job> job, double now) {
  job_ = std::move(job);
  job_->number = ++jobs_;
  job_->begun = now;
  job_->running = rule_->begin(job_->parts);
  request();
}

void SumMaker::request() {
  while (job_->requested < std::min(job_->parts.size(), job_->added + kPartsAhead)) {
    const size_t index = job_->requested++;
    fetch(index, copies_ ? courier_.self() : job_->holders[index]);
  }
}

void SumMaker::fetch(size_t index, const std::string& holder) {
  const Contribution& part = job_->parts[index];
  courier_.get({part.payload, part.bytes}, {holder}, transport::Priority::kRound,
               [inbox = inbox_, job = job_->number, index](Result<Bytes> bytes) {
                 inbox->add(FetchedPart{job, index, std::move(bytes)});
               });
}

// It has taken at least this long.
void SumMaker::give_up(double now) {
  choice_.formed(job_->exchange(), now - job_->begun);
  job_.reset();
}

void SumMaker::take(FetchedPart fetched, double now) {
  if (job_ == nullptr || fetched.job != job_->number) return;
  if (!fetched.bytes) {
    // An earlier coordinator may have fetched it, for example.
    const bool elsewhere = copies_ && job_->not_copied.insert(fetched.index).second;
    if (elsewhere) return fetch(fetched.index, job_->holders[fetched.index]);
    return give_up(now);
  }
  job_->arrived.emplace(fetched.index, *std::move(fetched.bytes));
  for (auto next = job_->arrived.find(job_->added); next != job_->arrived.end();
       next = job_->arrived.find(job_->added)) {
    const auto bytes = std::make_shared<const Bytes>(std::move(next->second));
    job_->arrived.erase(next);
    const transport::Delivery part{job_->parts[job_->added].member, bytes};
    if (!job_->running->add(part, job_->shares[job_->added])) return give_up(now);
    ++job_->added;
    request();
  }
  if (job_->added == job_->parts.size()) finish();
}

void SumMaker::finish() {
  const std::unique_ptr<Job> job = std::move(job_);
  auto coded = job->running->finish(job->sum.factor);
  if (!coded) return;
  const auto blob = std::make_shared<const Bytes>(*std::move(coded));
  membership::Sum sum = job->sum;
  sum.payload = transport::blob_id(*blob).name;
  sum.bytes = blob->size();
  stored_.push_back({sum.round, sum.payload});
  courier_.put(
      blob, transport::Priority::kRound,
      [inbox = inbox_, sum, from = job->exchange(), begun = job->begun](const Result<void>& done) {
        inbox->add(StoredSum{sum, from.contributions, from.bytes, begun, done});
      });
}

std::optional<membership::Sum> SumMaker::take(const StoredSum& stored, double now) {
  choice_.formed({stored.contributions, stored.bytes, stored.sum.bytes}, now - stored.begun);
  return stored.done ? std::optional(stored.sum) : std::nullopt;
}

void SumMaker::delete_old(const membership::State& state,
                          const std::function<bool(const Sha256&)>& is_used) {
  while (!stored_.empty() && stored_.front().round + kept_rounds() < state.next_round) {
    const Sha256 sum = stored_.front().sum;
    stored_.pop_front();
    const bool again = std::ranges::find(stored_, sum, &Stored::sum) != stored_.end();
    if (!again && !is_used(sum)) courier_.drop(sum, courier_.self(), [](const Result<void>&) {});
  }
}

}  // namespace thinwire::serve

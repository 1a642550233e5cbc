#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/codec/wire.h"
#include "thinwire/methods/diloco/diloco_outer_step.h"
#include "thinwire/methods/diloco/diloco_spec.h"
#include "thinwire/schedule/schedule.h"
#include "thinwire/sync/algorithm.h"
#include "thinwire/sync/local_update_strategy.h"
#include "thinwire/sync/private_sum.h"

namespace thinwire::sync {
namespace {

// A pseudo-gradient that was sent, but whose sum has not been applied yet.
struct InFlight {
  int64_t number;  // of the fragment's sends, from 1
  transport::Key key;
  bool empty;    // nobody contributed: the sum is zero
  float weight;  // with which this worker, or its cluster, is in it; 0: it is not
};

struct FragmentState {
  DilocoFragment place;
  int64_t sent = 0;
  int64_t settled = 0;             // sends whose sums had all been applied when training went on
  std::deque<InFlight> in_flight;  // oldest first
};

class Diloco final : public LocalUpdateStrategy {
 public:
  Diloco(const WorkerParts& worker, const method::DilocoOptions& options)
      : LocalUpdateStrategy(worker),
        options_(options),
        codec_(codec::wire_codec(options.formats())),
        step_(options, codec_, shared_, worker.params, worker.threads),
        secure_(worker.communicator, worker.threads, worker.spec.timeout_s),
        buffers_(static_cast<size_t>(options.buffers()),
                 std::vector<float>(static_cast<size_t>(shared_.layout().total()))) {
    for (DilocoFragment& place : diloco_fragments(shared_.layout(), options.fragments())) {
      fragments_.emplace_back().place = std::move(place);
    }
    if (options.passes_buffer(static_cast<int64_t>(fragments_.size()))) {
      passing_.resize(static_cast<size_t>(shared_.layout().total()));
    }
    schedule_ = {worker.spec.steps, options.sync_every, static_cast<int64_t>(fragments_.size())};
  }

  // The transport reads the buffers until their sums are cancelled.
  ~Diloco() override {
    for (const FragmentState& fragment : fragments_) {
      for (const InFlight& sum : fragment.in_flight) cluster_.cancel(sum.key);
    }
  }
  Diloco(const Diloco&) = delete;
  Diloco& operator=(const Diloco&) = delete;

  void restored(const Resumption& from) override {
    LocalUpdateStrategy::restored(from);
    const auto completed = static_cast<int64_t>(from.next_step);
    for (size_t f = 0; f < fragments_.size(); ++f) {
      FragmentState& fragment = fragments_[f];
      fragment.sent = schedule_.sent(static_cast<int64_t>(f), completed);
      const int64_t at_its_end =
          schedule_.sent(static_cast<int64_t>(f), static_cast<int64_t>(from.ended_at));
      fragment.settled = std::max(at_its_end, std::min(fragment.sent, options_.overlap_after));
      if (completed == schedule_.steps) continue;
      const int64_t oldest =
          std::max(fragment.settled + 1, fragment.sent - options_.in_flight() + 1);
      for (int64_t number = oldest; number <= fragment.sent; ++number) {
        const int64_t after = schedule_.sent_after(static_cast<int64_t>(f), number);
        if (options_.overlap == method::Overlap::kInner &&
            after + options_.overlap_steps <= completed)
          continue;
        start(f, number, from.round_at(static_cast<uint64_t>(after - 1)));
      }
    }
  }

  Result<StepReport> after_step(const Round& round) override {
    Result<StepReport> report = inner_step(round);
    if (!report) return report;
    for (FragmentState& fragment : fragments_) {
      if (!arrives(fragment, round)) continue;
      const auto done = collect(fragment, 0, *report);
      if (!done) return tl::unexpected(done.error());
      own(round).inactive() ? step_.follow(fragment.place) : step_.blend(fragment.place);
    }
    std::vector<FragmentState*> sending;
    for (size_t f = 0; f < fragments_.size(); ++f) {
      if (!schedule_.sends(static_cast<int64_t>(f), completed(round))) continue;
      send(f, round);
      sending.push_back(&fragments_[f]);
    }
    for (FragmentState* fragment : sending) {
      const auto done = continue_from(*fragment, round, *report);
      if (!done) return tl::unexpected(done.error());
    }
    return report;
  }

  std::vector<StateTensor> state() override {
    std::vector<StateTensor> state = LocalUpdateStrategy::state();
    for (StateTensor& part : step_.state()) state.push_back(std::move(part));
    for (size_t i = 0; i < buffers_.size(); ++i) {
      state.emplace_back("local.sent." + std::to_string(i), buffers_[i], Agreement::kLocal);
    }
    return state;
  }

  bool evaluates_own() const override { return options_.eager(); }

 private:
  void forget() override { step_.forget(); }

  static int64_t completed(const Round& round) { return static_cast<int64_t>(round.step) + 1; }

  // The memory of the pseudo-gradients that were sent for the `number`-th time.
  std::span<float> buffer(int64_t number) {
    if (!buffers_.empty()) return buffers_[static_cast<size_t>(number) % buffers_.size()];
    if (!passing_.empty()) return passing_;
    return worker_.params.all();
  }

  // Memory for the pseudo-gradient of a fragment's send.
  std::span<float> pseudo_gradient(const FragmentState& fragment, int64_t number) {
    return buffer(number).subspan(static_cast<size_t>(fragment.place.begin),
                                  static_cast<size_t>(fragment.place.count));
  }

  // Whether its weights keep what it has not sent of a fragment.
  bool turns(const Round& round) const {
    return options_.keeps_error_in_weights() && !own(round).inactive();
  }

  // Whether the sum that overlapped with training is due; at the end of the run every sum is.
  bool arrives(const FragmentState& fragment, const Round& round) const {
    if (options_.overlap != method::Overlap::kInner || fragment.in_flight.empty()) return false;
    const auto sent = static_cast<int64_t>(fragment.in_flight.front().key.round) + 1;
    return round.last || sent + options_.overlap_steps == completed(round);
  }

  void send(size_t f, const Round& round) {
    FragmentState& fragment = fragments_[f];
    const int64_t number = ++fragment.sent;
    const std::span<float> gradient = pseudo_gradient(fragment, number);
    const float weight = cluster_.weight_since(round, sent_after(f, number - 1));
    if (weight == 0) {
      std::ranges::fill(gradient, 0.0f);
      if (turns(round)) step_.turn(fragment.place);
      return start(f, number, round);
    }
    step_.pseudo_gradient(fragment.place, weight, gradient);
    make_private(worker_.spec.privacy, weight, gradient, worker_.threads);
    start(f, number, round);
    if (!step_.follows_sent()) return;
    const int64_t before = number - options_.depth;
    const bool late =
        options_.eager() && before > fragment.settled && sent_after(f, before) > own(round).since;
    step_.sent(fragment.place, weight, gradient,
               late ? pseudo_gradient(fragment, before) : std::span<float>());
  }

  // The steps completed when a fragment was sent for the `number`-th time; 0 before the first.
  uint64_t sent_after(size_t f, int64_t number) const {
    if (number < 1) return 0;
    return static_cast<uint64_t>(schedule_.sent_after(static_cast<int64_t>(f), number));
  }

  void start(size_t f, int64_t number, const Round& round) {
    const transport::Key key{round.run, round.epoch, round.step, static_cast<uint32_t>(f)};
    const uint64_t since = sent_after(f, number - 1);
    const MemberShares shares = cluster_.shares(round, since);
    const float weight = cluster_.weight_since(round, since);
    fragments_[f].in_flight.push_back({number, key, shares.from.empty(), weight});
    if (shares.from.empty()) return;
    if (worker_.spec.privacy.secure_sums) {
      secure_shares_ = shares;
      return;  // its operations come one after the other, when it is waited for
    }
    cluster_.start_all_reduce(key, pseudo_gradient(fragments_[f], number), codec_, shares,
                              options_.gathers());
  }

  // After a send: applies what must not stay in flight, and sets the weights with which training
  // continues.
  Result<void> continue_from(FragmentState& fragment, const Round& round, StepReport& report) {
    const bool settles = round.last || !options_.overlaps(fragment.sent);
    const int64_t left = settles ? 0 : options_.in_flight();
    auto done = collect(fragment, static_cast<size_t>(left), report);
    if (!done) return done;
    if (settles) {
      step_.settle(fragment.place);
      fragment.settled = fragment.sent;
    }
    if (!round.last && turns(round)) {
      step_.turn(fragment.place);
    } else if (settles || options_.overlap != method::Overlap::kInner || own(round).inactive()) {
      step_.follow(fragment.place);
    } else if (left == 0) {
      step_.blend(fragment.place);
    }
    return done;
  }

  // Waits for sums, oldest first, until `left` are in flight, and applies them.
  Result<void> collect(FragmentState& fragment, size_t left, StepReport& report) {
    while (fragment.in_flight.size() > left) {
      const InFlight oldest = fragment.in_flight.front();
      const std::span<float> mean = pseudo_gradient(fragment, oldest.number);
      const Stopwatch waiting;
      worker_.permits.pause();
      auto done = take_sum(fragment, oldest, mean, report);
      worker_.permits.resume();
      report.exchange_seconds += waiting.seconds();
      if (!done) return done;
      fragment.in_flight.pop_front();
      if (!report.lost_sum) step_.apply(fragment.place, mean);
      report.synchronised = true;
    }
    return {};
  }

  // `mean` holds what was sent, until it holds the sum.
  Result<void> take_sum(const FragmentState& fragment, const InFlight& sum, std::span<float> mean,
                        StepReport& report) {
    const double timeout = worker_.spec.timeout_s;
    if (sum.empty) {
      std::ranges::fill(mean, 0.0f);
      return {};
    }
    if (worker_.spec.privacy.secure_sums) {
      const Result<bool> known = secure_.form(sum.key, mean, secure_shares_);
      if (!known) return tl::unexpected(known.error());
      report.lost_sum = !*known;
      return {};
    }
    if (sum.weight > 0 && step_.keeps_error()) {
      const Result<bool> left_out = cluster_.left_out(sum.key, timeout);
      if (!left_out) return tl::unexpected(left_out.error());
      if (*left_out) step_.add_back(fragment.place, sum.weight, mean);
    }
    return cluster_.wait_all_reduce(sum.key, mean, timeout);
  }

  const method::DilocoOptions& options_;
  const WireCodec& codec_;
  OuterStep step_;
  SecureSum secure_;
  MemberShares secure_shares_;               // of the sum that is waited for next
  std::vector<std::vector<float>> buffers_;  // pseudo-gradients that may be in flight
  std::vector<float> passing_;               // those that are applied in the step they are sent
  schedule::FragmentSchedule schedule_;
  std::vector<FragmentState> fragments_;
};

class PseudoGradientReader final : public ContributionReader {
 public:
  PseudoGradientReader(const method::DilocoOptions& options, const tensor::Layout& layout)
      : codec_(codec::wire_codec(options.wire)),
        fragments_(diloco_fragments(layout, options.fragments())) {}

  Result<void> read(std::span<const uint8_t> payload, codec::PayloadId, uint32_t fragment,
                    tensor::Arena& out) override {
    if (fragment >= fragments_.size()) {
      return fail(FailureKind::kCorruptPayload, "the run has no such fragment");
    }
    const DilocoFragment& place = fragments_[fragment];
    buffer_.resize(static_cast<size_t>(place.count));
    auto done = codec_.decode(payload, buffer_);
    if (!done) return done;
    out.clear();
    for (const FragmentPiece& piece : place.pieces) {
      std::copy_n(buffer_.begin() + (piece.buffer - place.begin), piece.count,
                  out.all().begin() + piece.arena);
    }
    return done;
  }
  std::vector<tensor::GradientRange> covered(uint32_t fragment) const override {
    std::vector<tensor::GradientRange> ranges;
    for (const FragmentPiece& piece : fragments_.at(fragment).pieces) {
      ranges.push_back({.offset = piece.arena, .count = piece.count});
    }
    return ranges;
  }

 private:
  const WireCodec& codec_;
  const std::vector<DilocoFragment> fragments_;
  std::vector<float> buffer_;
};

const method::DilocoOptions& options_of(const config::Section& section) {
  return dynamic_cast<const method::DilocoOptions&>(section);
}

}  // namespace

// DiLoCo and its presets (thinwire/methods/diloco/diloco.md): workers, or clusters of them, train
// their own weights. Fragment by fragment, the pseudo-gradients (the shared weights minus a
// worker's own) are summed over all, while the workers wait or continue training.
const Algorithm kDiloco = {
    .name = "diloco",
    .strategy = [](const WorkerParts& worker,
                   const config::Section& section) -> std::unique_ptr<Strategy> {
      return std::make_unique<Diloco>(worker, options_of(section));
    },
    .payloads =
        [](const config::Section& section, const PayloadSource& source) {
          const WireType wire = options_of(section).wire;
          return codec::dense_reader(wire, wire, source.seed);
        },
    .sums_in =
        [](const config::Section& section) {
          const method::DilocoOptions& options = options_of(section);
          return options.gathers() ? std::nullopt : std::optional(options.formats());
        },
    .contributions = [](const config::Section& section, const tensor::Layout& layout,
                        ThreadPool&) -> std::unique_ptr<ContributionReader> {
      return std::make_unique<PseudoGradientReader>(options_of(section), layout);
    },
};

}  // namespace thinwire::sync

#include "thinwire/train/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/offload.h"
#include "thinwire/base/threads.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/model/registry.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/pair_loss.h"

namespace thinwire::train {
namespace {

constexpr size_t kEnvelope = 64;  // bytes of a message besides what it carries

// What a rank says of its rows.
struct Losses {
  double sum = 0;
  PairSums pairs;
};

// The rows of a rank: the first ranks have one more where they cannot be divided equally, so that
// those that have rows are the first.
struct Part {
  int64_t first = 0;
  int64_t count = 0;
};
Part share_of(int64_t rows, int rank, int ranks) {
  const int64_t base = rows / ranks, extra = rows % ranks;
  return {rank * base + std::min<int64_t>(rank, extra), base + (rank < extra ? 1 : 0)};
}

// The ranks that have rows, the first ones.
transport::Contributors contributors(int64_t rows, int ranks) {
  transport::Contributors all;
  for (int rank = 0; rank < ranks; ++rank) {
    if (share_of(rows, rank, ranks).count > 0) all.push_back(rank);
  }
  return all;
}

int64_t row_count(const StepRows& rows) {
  return static_cast<int64_t>(rows.tokens.size()) / (rows.sequence + 1);
}

// A rank's rows, to be divided by the number of all.
StepRows own_rows(const StepRows& rows, const Part& part) {
  StepRows own = part_of(rows, part.first, part.count);
  own.worker_rows = row_count(rows);
  return own;
}

// The sums of all ranks.
Losses sum_up(SiteExchange& site, int64_t rows, const Losses& losses) {
  Bytes own(sizeof losses);
  std::memcpy(own.data(), &losses, sizeof losses);
  Losses all;
  for (const transport::Delivery& one :
       site.answer(std::move(own), contributors(rows, site.count()))) {
    const auto part = ByteReader(*one.payload).get<Losses>();
    all.sum += part.sum;
    all.pairs.add(part.pairs);
  }
  return all;
}

// Whether each rank takes its rows of a step in one pass.
bool takes_one_pass(const StepRows& rows, int ranks) {
  return share_of(row_count(rows), kWorker, ranks).count <= rows.max_rows;
}

// Hands over the sums over the first ranks of what these hand over one by one.
std::function<void(size_t, std::span<const float>)> summing(
    SiteExchange& site, const int& active,
    std::function<void(size_t, std::span<const float>)> take) {
  return [&site, &active, take = std::move(take), sum = std::vector<float>()](
             size_t tensor, std::span<const float> gradient) mutable {
    sum.assign(gradient.begin(), gradient.end());
    site.sum_of_first(active, sum);
    if (take) take(tensor, sum);
  };
}

// The model of a rank that is not the worker's.
class Helper {
 public:
  Helper(config::Recipe recipe, SiteExchange& site)
      : recipe_(std::move(recipe)),
        site_(site),
        layout_(method::tensors_of(recipe_)),
        offload_(make_offload(recipe_)),
        params_(layout_, method::trained_format(recipe_), offload_),
        frozen_(method::adapted_tensors(method::ModelSpec(recipe_), recipe_.adapter).frozen,
                recipe_.train.weights, offload_),
        threads_(static_cast<int>(recipe_.train.threads)) {}

  void set_frozen(const ByteReader& reader) {
    set_part(reader, frozen_.values);
    frozen_is_new_ = true;
  }
  void set_weights(const ByteReader& reader) { set_part(reader, params_); }

  void begin() {
    model_ =
        model::make_model({.model = method::ModelSpec(recipe_),
                           .precision = recipe_.train.precision,
                           .layout = layout_,
                           .params = params_,
                           .threads = threads_,
                           .max_rows = method::rows_per_pass(recipe_.train),
                           .sequence = recipe_.train.sequence,
                           .placement = model::placement_of(recipe_.train.device, site_.rank()),
                           .frozen = frozen_.layout.size() > 0 ? &frozen_.values : nullptr,
                           .adapter = recipe_.adapter});
  }

  void step(ByteReader reader) {
    StepRows rows;
    rows.max_rows = method::rows_per_pass(recipe_.train);
    rows.sequence = reader.get<int64_t>();
    rows.counted_a_row = reader.get<double>();
    const auto tokens = get_values<int32_t>(reader);
    const auto weights = get_values<float>(reader);
    const auto begins = get_values<uint8_t>(reader);
    const auto references = get_values<PairLikelihoods>(reader);
    if (!reader.at_end()) throw Error("the worker of this site sent a damaged step");
    rows.tokens = tokens;
    rows.marks = {weights, begins};
    const Part part = share_of(row_count(rows), site_.rank(), site_.count());
    const transport::Contributors active = contributors(row_count(rows), site_.count());
    active_ = static_cast<int>(active.size());
    const bool streams = method::gradient_store(recipe_) == method::GradientStore::kStreamed &&
                         takes_one_pass(rows, site_.count());
    Losses losses;
    if (part.count > 0) losses = compute(rows, part, references, streams);
    if (!streams) site_.sum(whole().all(), active);
    sum_up(site_, row_count(rows), losses);
    if (method::gradient_store(recipe_) == method::GradientStore::kStreamed) gradients_.reset();
  }

  void share_optimizer() {
    method::OptimizerOptions options = method::sync_spec(recipe_, method::RunKind::kHosted).optim;
    options.offload = offload_;
    optimizer_.emplace(site_, options, layout_);
  }
  void update(const ByteReader& reader) {
    optimizer_.value().take_step(reader, params_, whole(), threads_);
  }
  OptimizerPart& optimizer() { return optimizer_.value(); }

 private:
  static void set_part(ByteReader reader, tensor::Arena& arena) {
    const auto begin = reader.get<uint64_t>();
    const std::vector<uint8_t> bytes = get_values<uint8_t>(reader);
    const size_t all = std::as_const(arena).bytes().size();
    if (!reader.at_end() || begin > all || bytes.size() > all - begin) {
      throw Error("the worker of this site sent damaged weights");
    }
    arena.set_bytes(static_cast<size_t>(begin), bytes);
  }

  tensor::Arena& whole() {
    if (!gradients_) gradients_.emplace(layout_);
    return *gradients_;
  }
  tensor::StreamedGradients& streamed() {
    if (!streamed_) {
      streamed_.emplace(
          layout_, model_->stream_size(),
          tensor::StreamedGradients::Handlers{summing(site_, active_, {}), [](int) {}});
    }
    return *streamed_;
  }

  Losses compute(const StepRows& rows, const Part& part,
                 std::span<const PairLikelihoods> references, bool streams) {
    model_->refresh();
    if (std::exchange(frozen_is_new_, false)) model_->refresh_frozen();
    StepRows own = own_rows(rows, part);
    std::optional<PairLoss> pairs;
    if (recipe_.data.records == config::RecordKind::kPreferences) {
      const size_t before = pairs_in(part_of(rows, 0, part.first).marks.begins, rows.sequence);
      const size_t mine = pairs_in(own.marks.begins, rows.sequence);
      if (before + mine > references.size()) throw Error("the rows have more pairs of answers");
      const auto of_rows = references.subspan(before, mine);
      own.loss = &pairs.emplace(recipe_.preference,
                                std::vector<PairLikelihoods>(of_rows.begin(), of_rows.end()));
    }
    Losses losses;
    if (streams) {
      losses.sum = accumulate_gradients(*model_, own, streamed());
    } else {
      tensor::WholeGradients sink(whole());
      losses.sum = accumulate_gradients(*model_, own, sink);
    }
    if (pairs) losses.pairs = pairs->sums();
    return losses;
  }

  const config::Recipe recipe_;
  SiteExchange& site_;
  const tensor::Layout layout_;
  const std::shared_ptr<Offload> offload_;
  tensor::Arena params_;
  std::optional<tensor::Arena> gradients_;             // from the first step that needs them whole;
                                                       // streamed: of such a step alone
  std::optional<tensor::StreamedGradients> streamed_;  // from the first that does not
  int active_ = 0;                                     // the first ranks, which have rows
  FrozenWeights frozen_;
  bool frozen_is_new_ = false;
  ThreadPool threads_;
  std::unique_ptr<model::Model> model_;  // from begin() on
  std::optional<OptimizerPart> optimizer_;
};

Bytes bytes_of(uint64_t value) {
  Bytes bytes;
  ByteWriter(bytes).put(value);
  return bytes;
}

void help_with(Helper& helper, SiteMessage message, const ByteReader& reader, SiteExchange& site) {
  switch (message) {
    case SiteMessage::kFrozen:
      helper.set_frozen(reader);
      site.answer({});
      break;
    case SiteMessage::kWeights:
      helper.set_weights(reader);
      site.answer({});
      break;
    case SiteMessage::kBegin:
      helper.begin();
      site.answer({});
      break;
    case SiteMessage::kStep:
      return helper.step(reader);
    case SiteMessage::kOptimizer:
      helper.share_optimizer();
      site.answer(bytes_of(helper.optimizer().optimizer().state_bytes()));
      break;
    case SiteMessage::kUpdate:
      return helper.update(reader);
    case SiteMessage::kCollect:
      return helper.optimizer().send_state();
    case SiteMessage::kSpread:
      return helper.optimizer().receive_state();
    case SiteMessage::kReset:
      return helper.optimizer().optimizer().reset();
    case SiteMessage::kEnd:
    case SiteMessage::kRecipe:
      break;
  }
}

void help(transport::Communicator& ranks) {
  SiteExchange site(ranks);
  std::optional<Helper> helper;
  while (const auto message = site.hear()) {
    ByteReader reader(*message);
    const auto kind = reader.get<SiteMessage>();
    if (kind == SiteMessage::kEnd) return;
    if (kind == SiteMessage::kRecipe) {
      const std::string text = reader.get_string();
      helper.emplace(
          config::parse_recipe(text, "the recipe of this site", {}, method::method_sections()),
          site);
    } else {
      help_with(helper.value(), kind, reader, site);
    }
  }
}

}  // namespace

Site::~Site() {
  if (in_step_) {
    ranks_.abort("the worker of this site failed");
    return;
  }
  try {
    exchange_.tell(message_of(SiteMessage::kEnd));
  } catch (const Error&) {  // nobody is left to tell
  }
}

Bytes Site::message_of(SiteMessage kind) {
  Bytes message;
  ByteWriter(message).put(kind);
  return message;
}

void Site::begin(const config::Recipe& recipe, const tensor::Arena* frozen) {
  begin_step();
  Bytes message = message_of(SiteMessage::kRecipe);
  ByteWriter(message).put_string(config::print_recipe(recipe));
  exchange_.tell(std::move(message));
  sent_weights_.clear();
  sent_frozen_.clear();
  if (frozen != nullptr) send_changed(SiteMessage::kFrozen, *frozen, sent_frozen_);
  exchange_.tell(message_of(SiteMessage::kBegin));
  exchange_.answer({});
  end_step();
}

void Site::set_frozen(const tensor::Arena& frozen) {
  begin_step();
  send_changed(SiteMessage::kFrozen, frozen, sent_frozen_);
  end_step();
}

void Site::send_changed(SiteMessage kind, const tensor::Arena& values,
                        std::vector<uint64_t>& sent) {
  const std::vector<uint64_t> before = std::exchange(sent, {});
  remember(values, sent);
  const std::span<const uint8_t> bytes = values.bytes();
  for (size_t i = 0; i < sent.size(); ++i) {
    if (!before.empty() && sent[i] == before[i]) continue;
    const size_t begin = i * kSentAtOnce;
    const auto part = bytes.subspan(begin, std::min(kSentAtOnce, bytes.size() - begin));
    Bytes message;
    message.reserve(part.size() + kEnvelope);
    ByteWriter writer(message);
    writer.put(kind);
    writer.put(static_cast<uint64_t>(begin));
    put_values(writer, part);
    exchange_.tell(std::move(message));
    exchange_.answer({});
    if (values.offload() != nullptr) values.offload()->release(part.data(), part.size());
  }
}

void Site::remember(const tensor::Arena& values, std::vector<uint64_t>& sent) {
  const std::span<const uint8_t> bytes = values.bytes();
  sent.clear();
  for (size_t begin = 0; begin < bytes.size(); begin += kSentAtOnce) {
    const auto part = bytes.subspan(begin, std::min(kSentAtOnce, bytes.size() - begin));
    sent.push_back(hash_bytes(part));
    if (values.offload() != nullptr) values.offload()->release(part.data(), part.size());
  }
}

tensor::StreamedGradients::Handlers Site::summing(tensor::StreamedGradients::Handlers handlers) {
  handlers.take = train::summing(exchange_, active_, std::move(handlers.take));
  return handlers;
}

bool Site::streams(const StepRows& rows) const { return takes_one_pass(rows, ranks_.size()); }

double Site::gradients(model::Model& model, const tensor::Arena& params, const StepRows& rows,
                       tensor::Arena& out) {
  tensor::WholeGradients sink(out);
  return step(model, params, rows, sink, [&] {
    exchange_.sum(out.all(), contributors(row_count(rows), ranks_.size()));
    remember_gradients(out);
  });
}

double Site::stream(model::Model& model, const tensor::Arena& params, const StepRows& rows,
                    tensor::StreamedGradients& sink) {
  return step(model, params, rows, sink, [] {});
}

double Site::step(model::Model& model, const tensor::Arena& params, const StepRows& rows,
                  tensor::GradientSink& sink, const std::function<void()>& end) {
  begin_step();
  send_changed(SiteMessage::kWeights, params, sent_weights_);
  const int64_t count = row_count(rows);
  Bytes message;
  message.reserve(rows.tokens.size_bytes() + rows.marks.weights.size_bytes() +
                  rows.marks.begins.size() + kEnvelope);
  ByteWriter writer(message);
  writer.put(SiteMessage::kStep);
  writer.put(rows.sequence);
  writer.put(rows.counted_a_row);
  put_values(writer, rows.tokens);
  put_values(writer, rows.marks.weights);
  put_values(writer, rows.marks.begins);
  put_values(writer, rows.loss == nullptr ? std::span<const PairLikelihoods>() : rows.loss->left());
  exchange_.tell(std::move(message));
  active_ = static_cast<int>(contributors(count, ranks_.size()).size());
  Losses own;
  own.sum =
      accumulate_gradients(model, own_rows(rows, share_of(count, kWorker, ranks_.size())), sink);
  if (rows.loss != nullptr) own.pairs = rows.loss->take_sums();
  end();
  const Losses all = sum_up(exchange_, count, own);
  if (rows.loss != nullptr) rows.loss->add(all.pairs);
  end_step();
  return all.sum;
}

void help_site(transport::Communicator& ranks) {
  try {
    help(ranks);
  } catch (const std::exception& error) {
    ranks.abort(fmt::format("rank {}: {}", ranks.rank(), plain_message(error)));
    throw;
  }
}

}  // namespace thinwire::train

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
#include "thinwire/codec/wire.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"
#include "thinwire/model/registry.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/pair_loss.h"

namespace thinwire::train {
namespace {

using transport::Key;

// Rank 0 may wait for others of its run for as long as it takes.
constexpr double kForeverSeconds = 1e8;
constexpr int kWorker = 0;        // the rank
constexpr size_t kEnvelope = 64;  // bytes of a message besides what it carries

// The operations of a message.
enum Fragment : uint32_t { kMessage, kGradients, kLosses };

// What a rank says of its rows.
struct Losses {
  double sum = 0;
  PairSums pairs;
};

Key key(uint64_t message, Fragment fragment) { return {0, 0, message, fragment}; }

template <typename T>
T checked(Result<T> result) {
  if (!result) throw Error("the ranks of this site: " + result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// The rows of a rank: some have one more where they cannot be divided equally, the first of all.
struct Part {
  int64_t first = 0;
  int64_t count = 0;
};
Part share_of(int64_t rows, int rank, int ranks) {
  const auto begin = [&](int64_t i) { return (rows * i + ranks - 1) / ranks; };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

// The ranks that have rows.
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

// A rank's part of the sums, once its own gradients are in `out`. Returns the sums of all ranks.
Losses sum_up(transport::Communicator& ranks, uint64_t message, int64_t rows, const Losses& losses,
              tensor::Arena& out) {
  const transport::Contributors from = contributors(rows, ranks.size());
  const std::span<float> gradients = out.all();
  ranks.start_all_reduce(key(message, kGradients), gradients, codec::wire_codec(WireType::kF32),
                         from);
  Bytes own(sizeof losses);
  std::memcpy(own.data(), &losses, sizeof losses);
  ranks.start_all_gather(key(message, kLosses), std::move(own), from);
  checked(ranks.wait_all_reduce(key(message, kGradients), gradients, kForeverSeconds));
  Losses all;
  for (const transport::Delivery& one :
       checked(ranks.wait_all_gather(key(message, kLosses), kForeverSeconds))) {
    const auto part = ByteReader(*one.payload).get<Losses>();
    all.sum += part.sum;
    all.pairs.add(part.pairs);
  }
  return all;
}

// Until every rank has processed the message.
void wait_for_all(transport::Communicator& ranks, uint64_t message) {
  ranks.start_all_gather(key(message, kLosses), {});
  checked(ranks.wait_all_gather(key(message, kLosses), kForeverSeconds));
}

template <typename T>
void put_values(ByteWriter& writer, std::span<const T> values) {
  writer.put(static_cast<uint64_t>(values.size()));
  writer.put_bytes(as_bytes(values));
}

template <typename T>
std::vector<T> get_values(ByteReader& reader) {
  const std::span<const uint8_t> bytes =
      reader.get_bytes(static_cast<size_t>(reader.get<uint64_t>()) * sizeof(T));
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// The model of a rank that is not the worker's.
class Helper {
 public:
  Helper(config::Recipe recipe, int rank)
      : recipe_(std::move(recipe)),
        rank_(rank),
        layout_(method::tensors_of(recipe_)),
        offload_(make_offload(recipe_)),
        params_(layout_, method::trained_format(recipe_), offload_),
        gradients_(layout_),
        frozen_(method::adapted_tensors(method::ModelSpec(recipe_), recipe_.adapter).frozen,
                recipe_.train.weights, offload_),
        threads_(static_cast<int>(recipe_.train.threads)) {}

  void set_frozen(const ByteReader& reader) {
    set_part(reader, frozen_.values);
    frozen_is_new_ = true;
  }
  void set_weights(const ByteReader& reader) { set_part(reader, params_); }

  void begin() {
    model_ = model::make_model({.model = method::ModelSpec(recipe_),
                                .precision = recipe_.train.precision,
                                .layout = layout_,
                                .params = params_,
                                .threads = threads_,
                                .max_rows = method::rows_per_pass(recipe_.train),
                                .sequence = recipe_.train.sequence,
                                .placement = model::placement_of(recipe_.train.device, rank_),
                                .frozen = frozen_.layout.size() > 0 ? &frozen_.values : nullptr,
                                .adapter = recipe_.adapter});
  }

  void step(transport::Communicator& ranks, uint64_t message, ByteReader reader) {
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
    const Part part = share_of(row_count(rows), ranks.rank(), ranks.size());
    Losses losses;
    if (part.count > 0) losses = compute(rows, part, references);
    sum_up(ranks, message, row_count(rows), losses, gradients_);
  }

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

  Losses compute(const StepRows& rows, const Part& part,
                 std::span<const PairLikelihoods> references) {
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
    tensor::WholeGradients sink(gradients_);
    Losses losses;
    losses.sum = accumulate_gradients(*model_, own, sink);
    if (pairs) losses.pairs = pairs->sums();
    return losses;
  }

  const config::Recipe recipe_;
  const int rank_;
  const tensor::Layout layout_;
  const std::shared_ptr<Offload> offload_;
  tensor::Arena params_;
  tensor::Arena gradients_;
  FrozenWeights frozen_;
  bool frozen_is_new_ = false;
  ThreadPool threads_;
  std::unique_ptr<model::Model> model_;  // from begin() on
};

void help(transport::Communicator& ranks) {
  std::optional<Helper> helper;
  for (uint64_t message = 0;; ++message) {
    ranks.start_all_gather(key(message, kMessage), {}, {kWorker});
    const auto list = checked(ranks.wait_all_gather(key(message, kMessage), kForeverSeconds));
    if (list.empty()) return;  // it has left
    ByteReader reader(*list.front().payload);
    const auto kind = reader.get<SiteMessage>();
    if (kind == SiteMessage::kEnd) return;
    if (kind == SiteMessage::kRecipe) {
      const std::string text = reader.get_string();
      helper.emplace(
          config::parse_recipe(text, "the recipe of this site", {}, method::method_sections()),
          ranks.rank());
    } else if (kind == SiteMessage::kFrozen) {
      helper.value().set_frozen(reader);
      wait_for_all(ranks, message);
    } else if (kind == SiteMessage::kWeights) {
      helper.value().set_weights(reader);
      wait_for_all(ranks, message);
    } else if (kind == SiteMessage::kBegin) {
      helper.value().begin();
      wait_for_all(ranks, message);
    } else {
      helper.value().step(ranks, message, reader);
    }
  }
}

}  // namespace

Site::~Site() {
  if (in_step_) {
    ranks_.abort("the worker of this site failed");
    return;
  }
  Bytes end;
  ByteWriter(end).put(SiteMessage::kEnd);
  ranks_.start_all_gather(key(messages_, kMessage), std::move(end), {kWorker});
  (void)ranks_.wait_all_gather(key(messages_, kMessage), kForeverSeconds);
}

uint64_t Site::send(Bytes message) {
  const uint64_t number = messages_++;
  ranks_.start_all_gather(key(number, kMessage), std::move(message), {kWorker});
  checked(ranks_.wait_all_gather(key(number, kMessage), kForeverSeconds));
  return number;
}

void Site::begin(const config::Recipe& recipe, const tensor::Arena* frozen) {
  Bytes message;
  ByteWriter writer(message);
  writer.put(SiteMessage::kRecipe);
  writer.put_string(config::print_recipe(recipe));
  in_step_ = true;
  send(std::move(message));
  sent_weights_.clear();
  sent_frozen_.clear();
  if (frozen != nullptr) send_changed(SiteMessage::kFrozen, *frozen, sent_frozen_);
  Bytes begin;
  ByteWriter(begin).put(SiteMessage::kBegin);
  wait_for_all(ranks_, send(std::move(begin)));
  in_step_ = false;
}

void Site::set_frozen(const tensor::Arena& frozen) {
  in_step_ = true;
  send_changed(SiteMessage::kFrozen, frozen, sent_frozen_);
  in_step_ = false;
}

void Site::send_changed(SiteMessage kind, const tensor::Arena& values,
                        std::vector<uint64_t>& sent) {
  const std::span<const uint8_t> bytes = values.bytes();
  const bool first = sent.empty();
  sent.resize((bytes.size() + kSentAtOnce - 1) / kSentAtOnce);
  for (size_t i = 0; i < sent.size(); ++i) {
    const size_t begin = i * kSentAtOnce;
    const auto part = bytes.subspan(begin, std::min(kSentAtOnce, bytes.size() - begin));
    const uint64_t digest = hash_bytes(part);
    if (first || digest != sent[i]) {
      Bytes message;
      message.reserve(part.size() + kEnvelope);
      ByteWriter writer(message);
      writer.put(kind);
      writer.put(static_cast<uint64_t>(begin));
      put_values(writer, part);
      wait_for_all(ranks_, send(std::move(message)));
      sent[i] = digest;
    }
    if (values.offload() != nullptr) values.offload()->release(part.data(), part.size());
  }
}

double Site::gradients(model::Model& model, const tensor::Arena& params, const StepRows& rows,
                       tensor::Arena& out) {
  in_step_ = true;
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
  const uint64_t number = send(std::move(message));
  tensor::WholeGradients sink(out);
  Losses own;
  own.sum =
      accumulate_gradients(model, own_rows(rows, share_of(count, kWorker, ranks_.size())), sink);
  if (rows.loss != nullptr) own.pairs = rows.loss->take_sums();
  const Losses all = sum_up(ranks_, number, count, own, out);
  if (rows.loss != nullptr) rows.loss->add(all.pairs);
  in_step_ = false;
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

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
#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/model/registry.h"
#include "thinwire/train/initial_parameters.h"

namespace thinwire::train {
namespace {

using transport::Key;

// Rank 0 may wait for others of its run for as long as it takes.
constexpr double kForeverSeconds = 1e8;
constexpr int kWorker = 0;  // the rank

enum class Kind : uint8_t { kEnd, kRecipe, kFrozen, kBegin, kStep };

constexpr size_t kFrozenAtOnce = size_t{1} << 26;  // bytes

// The operations of a message.
enum Fragment : uint32_t { kMessage, kGradients, kLosses };

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

// A rank's part of the sums, once its own gradients are in `out`. Returns the sum of all losses.
double sum_up(transport::Communicator& ranks, uint64_t message, int64_t rows, double loss,
              tensor::Arena& out) {
  const transport::Contributors from = contributors(rows, ranks.size());
  const std::span<float> gradients = out.all();
  ranks.start_all_reduce(key(message, kGradients), gradients, codec::wire_codec(WireType::kF32),
                         from);
  Bytes own(sizeof loss);
  std::memcpy(own.data(), &loss, sizeof loss);
  ranks.start_all_gather(key(message, kLosses), std::move(own), from);
  checked(ranks.wait_all_reduce(key(message, kGradients), gradients, kForeverSeconds));
  double sum = 0;
  for (const transport::Delivery& one :
       checked(ranks.wait_all_gather(key(message, kLosses), kForeverSeconds))) {
    sum += ByteReader(*one.payload).get<double>();
  }
  return sum;
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
        params_(layout_),
        gradients_(layout_),
        frozen_(method::adapted_tensors(method::ModelSpec(recipe_), recipe_.adapter).frozen,
                recipe_.train.weights, nullptr),
        threads_(static_cast<int>(recipe_.train.threads)) {}

  // Some of the bytes of the tensors that are not trained.
  void set_frozen(ByteReader reader) {
    const auto begin = reader.get<uint64_t>();
    const std::vector<uint8_t> bytes = get_values<uint8_t>(reader);
    const size_t all = std::as_const(frozen_.values).bytes().size();
    if (!reader.at_end() || begin > all || bytes.size() > all - begin) {
      throw Error("the worker of this site sent damaged weights");
    }
    frozen_.values.set_bytes(static_cast<size_t>(begin), bytes);
  }

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
    const std::span<float> params = params_.all();
    const std::span<const uint8_t> sent = reader.get_bytes(params.size_bytes());
    if (!reader.at_end()) throw Error("the worker of this site sent a damaged step");
    std::memcpy(params.data(), sent.data(), sent.size());
    rows.tokens = tokens;
    rows.marks = {weights, begins};
    const Part part = share_of(row_count(rows), ranks.rank(), ranks.size());
    double loss = 0;
    if (part.count > 0) {
      model_->refresh();
      tensor::WholeGradients sink(gradients_);
      loss = accumulate_gradients(*model_, own_rows(rows, part), sink);
    }
    sum_up(ranks, message, row_count(rows), loss, gradients_);
  }

 private:
  const config::Recipe recipe_;
  const int rank_;
  const tensor::Layout layout_;
  tensor::Arena params_;
  tensor::Arena gradients_;
  FrozenWeights frozen_;
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
    const auto kind = reader.get<Kind>();
    if (kind == Kind::kEnd) return;
    if (kind == Kind::kRecipe) {
      const std::string text = reader.get_string();
      helper.emplace(
          config::parse_recipe(text, "the recipe of this site", {}, method::method_sections()),
          ranks.rank());
    } else if (kind == Kind::kFrozen) {
      helper.value().set_frozen(reader);
    } else if (kind == Kind::kBegin) {
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
  ByteWriter(end).put(Kind::kEnd);
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
  writer.put(Kind::kRecipe);
  writer.put_string(config::print_recipe(recipe));
  in_step_ = true;
  send(std::move(message));
  const std::span<const uint8_t> bytes =
      frozen == nullptr ? std::span<const uint8_t>() : frozen->bytes();
  for (size_t at = 0; at < bytes.size(); at += kFrozenAtOnce) {
    Bytes part;
    ByteWriter out(part);
    out.put(Kind::kFrozen);
    out.put(static_cast<uint64_t>(at));
    put_values(out, bytes.subspan(at, std::min(kFrozenAtOnce, bytes.size() - at)));
    send(std::move(part));
  }
  Bytes begin;
  ByteWriter(begin).put(Kind::kBegin);
  wait_for_all(ranks_, send(std::move(begin)));
  in_step_ = false;
}

double Site::gradients(model::Model& model, const tensor::Arena& params, const StepRows& rows,
                       tensor::Arena& out) {
  const int64_t count = row_count(rows);
  Bytes message;
  message.reserve(params.bytes().size() + rows.tokens.size_bytes() +
                  rows.marks.weights.size_bytes() + rows.marks.begins.size() + 64);
  ByteWriter writer(message);
  writer.put(Kind::kStep);
  writer.put(rows.sequence);
  writer.put(rows.counted_a_row);
  put_values(writer, rows.tokens);
  put_values(writer, rows.marks.weights);
  put_values(writer, rows.marks.begins);
  writer.put_bytes(params.bytes());
  in_step_ = true;
  const uint64_t number = send(std::move(message));
  tensor::WholeGradients sink(out);
  const double loss =
      accumulate_gradients(model, own_rows(rows, share_of(count, kWorker, ranks_.size())), sink);
  const double sum = sum_up(ranks_, number, count, loss, out);
  in_step_ = false;
  return sum;
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

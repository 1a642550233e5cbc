// thinwire bench codec: size and speed of DisTrO's payloads on this machine.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/memory.h"
#include "thinwire/base/rng.h"
#include "thinwire/base/threads.h"
#include "thinwire/base/units.h"
#include "thinwire/cli/command.h"
#include "thinwire/cli/options.h"
#include "thinwire/codec/payload.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/methods/distro/distro_encoder.h"
#include "thinwire/report/table.h"

namespace thinwire::cli {
namespace {

struct BenchCodecArguments {
  method::ModelSpec model;
  std::vector<int64_t> k = {1, 2, 4, 6, 16, 32, 64};
  std::vector<std::string> values = {"1bit"};
  int64_t chunk = method::DistroOptions().chunk;
  int threads = 1;
  int rounds = 9;
  bool json = false;
};

struct Case {
  std::string_view values;
  int64_t k = 0;
  int64_t params = 0;
  size_t bytes = 0;
  double bound_bytes = 0;
  double encode_seconds = 0;
  double decode_seconds = 0;

  double ratio() const { return static_cast<double>(bytes) / bound_bytes; }
  double rate(double seconds) const { return static_cast<double>(bytes) / seconds / 1e6; }
};

// Full tiles of uniformly drawn slots, as the bound assumes, and normally distributed values.
codec::SparseTiles random_tiles(std::span<const codec::SparseShape> shapes, ValueFormat format) {
  Rng rng(1, 1);
  codec::SparseTiles tiles(shapes);
  for (size_t tensor = 0; tensor < shapes.size(); ++tensor) {
    const codec::SparseShape& shape = shapes[tensor];
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      auto at = static_cast<size_t>(shape.first_kept + tile * shape.kept);
      tiles.counts[static_cast<size_t>(shape.first_tile + tile)] =
          static_cast<uint32_t>(shape.kept);
      // Each slot is taken with the probability that makes all choices of `kept` equally likely.
      for (int slot = 0, left = shape.kept; left > 0; ++slot) {
        if (rng.below(static_cast<uint64_t>(shape.slots - slot)) >= static_cast<uint64_t>(left)) {
          continue;
        }
        tiles.slots[at] = static_cast<uint16_t>(slot);
        tiles.values[at++] = static_cast<float>(rng.normal());
        --left;
      }
    }
    codec::quantise(shape, tensor, format, tiles);
  }
  return tiles;
}

double median_seconds(int rounds, const std::function<void()>& body) {
  body();  // afterwards memory is allocated and warm
  std::vector<double> seconds;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    body();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const auto middle = seconds.begin() + rounds / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

// What a receiver does with a payload before it adds up the values.
void decode(const Bytes& payload, const codec::PayloadId& id, ThreadPool& threads,
            std::span<const codec::SparseShape> shapes, codec::SparseMessage& message,
            std::vector<float>& values) {
  const auto body = codec::open_payload(payload, id);
  if (!body) throw Error(body.error().message);
  if (const auto opened = message.open(*body); !opened) throw Error(opened.error().message);
  const auto segments = static_cast<int64_t>(message.segments().size());
  threads.for_ranges(segments, 1, [&](int64_t begin, int64_t end, int) {
    const auto done = message.decode(static_cast<size_t>(begin), static_cast<size_t>(end));
    if (!done) throw Error(done.error().message);
    for (auto index = static_cast<size_t>(begin); index < static_cast<size_t>(end); ++index) {
      const codec::SparseSegment& segment = message.segments()[index];
      const codec::SparseShape& shape = shapes[segment.tensor];
      message.read_values(index, 0, segment.tiles * shape.kept,
                          values.data() + shape.first_kept + segment.first_tile * shape.kept);
    }
  });
}

// Memory for slots and values as drawn, as sent, and as read again.
void require_memory(const BenchCodecArguments& arguments, const std::vector<TensorSpec>& tensors) {
  const int64_t most = *std::ranges::max_element(arguments.k);
  const method::TilePlan plan =
      method::plan_tiles(tensors, {.chunk = arguments.chunk, .k = most, .fixed_k = false});
  constexpr double kDrawn = sizeof(uint16_t) + sizeof(float);
  const auto kept = static_cast<double>(plan.kept);
  check_memory({"bench codec",
                {{"slots and values", kept * kDrawn},
                 {"a payload", kept * kDrawn},
                 {"values read", kept * sizeof(float)}},
                fmt::format("lower --layers {} or --k {}", arguments.model.layers, most)});
}

Case measure(const BenchCodecArguments& arguments, const std::vector<TensorSpec>& tensors,
             ValueFormat values, int64_t k, ThreadPool& threads) {
  method::DistroOptions options;
  options.chunk = arguments.chunk;
  options.k = k;
  options.values = values;
  const tensor::Layout layout(tensors);
  const codec::DistroTiles plan(options, layout);
  const codec::SparseTiles tiles = random_tiles(plan.shapes(), values);
  const codec::PayloadId id;

  Case result{.values = name_of(values), .k = k, .params = method::parameter_count(tensors)};
  Bytes payload;
  result.encode_seconds = median_seconds(arguments.rounds, [&] {
    codec::begin_payload(id, payload);
    codec::encode_sparse(plan.shapes(), values, tiles, threads, payload);
    codec::seal_payload(payload);
  });
  codec::SparseMessage message(plan.shapes(), values);
  std::vector<float> received(tiles.values.size());
  result.decode_seconds = median_seconds(
      arguments.rounds, [&] { decode(payload, id, threads, plan.shapes(), message, received); });
  if (received != tiles.values) throw Error("bench codec: a payload decodes to other values");
  result.bytes = payload.size();
  result.bound_bytes = method::distro_entropy_bits(plan.plan(), value_bits(values)) / 8;
  return result;
}

void show_json(const Case& result) {
  const nlohmann::json line = {{"values", result.values},
                               {"k", result.k},
                               {"params", result.params},
                               {"bytes", result.bytes},
                               {"bound_bytes", result.bound_bytes},
                               {"ratio", result.ratio()},
                               {"encode_mb_s", result.rate(result.encode_seconds)},
                               {"decode_mb_s", result.rate(result.decode_seconds)}};
  fmt::print("{}\n", print_json(line));
}

report::Table table_of(const std::vector<Case>& cases) {
  report::Table table;
  table.columns = {{"values", true}, {"k"},           {"bytes"}, {"bound"}, {"ratio"},
                   {"encode\nMB/s"}, {"decode\nMB/s"}};
  for (const Case& result : cases) {
    table.rows.push_back(
        {std::string(result.values), fmt::format("{}", result.k), fmt::format("{}", result.bytes),
         report::number_cell(result.bound_bytes, 0), report::number_cell(result.ratio(), 4),
         report::number_cell(result.rate(result.encode_seconds), 0),
         report::number_cell(result.rate(result.decode_seconds), 0)});
  }
  return table;
}

void run_bench_codec(const BenchCodecArguments& arguments) {
  if (arguments.k.empty()) throw UsageError("--k must be given a number");
  for (const int64_t k : arguments.k) {
    if (k > arguments.chunk * arguments.chunk) {
      throw UsageError(fmt::format("--k must be <= chunk * chunk = {}, got {}",
                                   arguments.chunk * arguments.chunk, k));
    }
  }
  const auto tensors = method::tensors_of(arguments.model);
  require_memory(arguments, tensors);
  ThreadPool threads(arguments.threads);
  std::vector<Case> cases;
  for (const std::string& values : arguments.values) {
    for (const int64_t k : arguments.k) {
      cases.push_back(measure(arguments, tensors, *value_named<ValueFormat>(values), k, threads));
      if (arguments.json) show_json(cases.back());
    }
  }
  if (arguments.json) return;
  fmt::print("{} parameters, chunk {}, {} threads; MB of payload\n\n{}",
             format_count(static_cast<double>(cases.front().params)), arguments.chunk,
             arguments.threads, table_of(cases).terminal());
}

// A model of 51.7 M parameters.
method::ModelSpec default_model() {
  method::ModelSpec model;
  model.vocab = 32000;
  model.hidden = 512;
  model.layers = 6;
  model.heads = 8;
  auto& llama = model.options<method::LlamaOptions>();
  llama.kv_heads = 8;
  llama.intermediate = 1376;
  return model;
}

}  // namespace

void add_bench_codec(CLI::App& bench) {
  auto* command = add_command(bench, "codec",
                              "Compares the size of DisTrO's payloads with the entropy of "
                              "uniformly drawn slots, and times encoding and decoding");
  const auto arguments = std::make_shared<BenchCodecArguments>();
  arguments->model = default_model();
  command
      ->add_option("--k", arguments->k,
                   "Coefficients kept for a full tile; separate several with commas")
      ->delimiter(',')
      ->check(whole_number(1, 65536))
      ->capture_default_str();
  command
      ->add_option("--values", arguments->values,
                   "Number formats of values; separate several with commas")
      ->delimiter(',')
      ->check(one_of({"fp32", "bf16", "int8", "1bit"}))
      ->capture_default_str();
  add_count(*command, "--chunk", arguments->chunk, 1, method::kMaxChunk, "Largest side of a tile");
  add_count(*command, "--layers", arguments->model.layers, 1, 1000,
            "Blocks of the model, whose width is 512");
  add_count(*command, "--threads", arguments->threads, 1, kMaxThreads,
            "Threads that encode one payload");
  add_count(*command, "--rounds", arguments->rounds, 1, 1'000'000,
            "Repetitions; the median is reported");
  command->add_flag("--json", arguments->json, "Print one line of JSON per case instead");
  command->callback([arguments] { run_bench_codec(*arguments); });
}

}  // namespace thinwire::cli

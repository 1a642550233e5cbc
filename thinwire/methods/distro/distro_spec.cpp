#include "thinwire/methods/distro/distro_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/base/payload_format.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/method.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/within.h"
#include "thinwire/optimizers/adamw/adamw_spec.h"
#include "thinwire/optimizers/galore/galore_spec.h"

namespace thinwire::method {
namespace {

std::unique_ptr<config::Section> options() { return std::make_unique<DistroOptions>(); }

const DistroOptions& distro(const config::Recipe& recipe) {
  return recipe.section<DistroOptions>("distro");
}

void require(bool holds, std::string_view message) {
  if (!holds) throw UsageError(fmt::format("[distro] {}", message));
}

// Checks the fields that need a stateful client, and those that need a stateless one.
void check_client(const DistroOptions& options, const config::Recipe& recipe) {
  if (options.stateless()) {
    require(!options.feedback,
            "feedback = true needs client = stateful: a stateless client keeps no error to feed "
            "back");
    require(!options.look_ahead,
            "look_ahead = true needs client = stateful: it steps along the momentum, which a "
            "stateless client does not keep");
  } else {
    require(options.local_steps == 1,
            fmt::format("local_steps must be 1 with client = stateful, which sends every step, got "
                        "{}; client = stateless takes local steps",
                        options.local_steps));
    require(options.local_update == DistroUpdate::kSgd,
            fmt::format("local_update = {} needs client = stateless: a stateful client takes no "
                        "local steps",
                        name_of(options.local_update)));
  }
  require(!options.look_ahead || options.overlap == 1,
          "look_ahead = true needs overlap = 1: without overlap no update is late");
  require(options.local_steps <= recipe.train.steps,
          fmt::format("local_steps must be <= train.steps = {}, got {}", recipe.train.steps,
                      options.local_steps));
}

// Checks what GaLore needs: its step takes the aggregate of projected gradients, whose coordinates
// hold until the step is taken.
void check_galore(const DistroOptions& options, const config::Recipe& recipe) {
  if (!draws_bases(recipe)) return;
  const auto need = [](bool holds, std::string_view field, std::string_view right,
                       std::string_view value, std::string_view why) {
    if (holds) return;
    throw UsageError(fmt::format("{} must be {} with optim.method = \"{}\", got {}: {}", field,
                                 right, kGalore.name, value, why));
  };
  need(options.update == DistroUpdate::kAdamW, "[distro] update", "\"adamw\"",
       fmt::format("\"{}\"", name_of(options.update)),
       "the optimizer takes the aggregate as its gradient");
  need(!options.stateless(), "[distro] client", "\"stateful\"", "\"stateless\"",
       "a difference of weights has no projection of its own");
  need(options.overlap == 0, "[distro] overlap", "0", fmt::to_string(options.overlap),
       "what is in flight when a basis is renewed would be in the coordinates of the old one");
  need(recipe.optim.gradients == config::GradientCoordinates::kProjected, "[optim] gradients",
       "\"projected\"", fmt::format("\"{}\"", name_of(recipe.optim.gradients)),
       "the workers exchange coefficients of projected gradients");
}

void check(const config::Recipe& recipe) {
  const DistroOptions& options = distro(recipe);
  check_client(options, recipe);
  check_galore(options, recipe);
  if (options.k > options.chunk * options.chunk) {
    throw UsageError(fmt::format("[distro] k must be <= chunk * chunk = {}, got {}",
                                 options.chunk * options.chunk, options.k));
  }
  options.sums.check("distro", options.k, recipe);
  if (options.feedback && options.values == ValueFormat::kF32) {
    throw UsageError(
        "[distro] feedback = true needs values bf16, int8 or 1bit: fp32 values have no error to "
        "feed back");
  }
  const auto needs_adamw = [&](std::string_view field, std::string_view or_else) {
    throw UsageError(fmt::format("[distro] {} = \"{}\" needs optim.method = \"{}\"{}, got \"{}\"",
                                 field, kAdamw.name, kAdamw.name, or_else, recipe.optim.method));
  };
  if (recipe.optim.method == kAdamw.name || draws_bases(recipe)) return;
  if (options.update == DistroUpdate::kAdamW) {
    if (recipe.optim.method == kGalore.name) {
      throw UsageError(
          "[galore] basis must be \"seeded\" with distro.update = \"adamw\", got \"gradient\": "
          "workers share no gradient whose directions it could follow");
    }
    needs_adamw("update", ", or \"galore\" with galore.basis = \"seeded\"");
  }
  if (options.local_update == DistroUpdate::kAdamW) needs_adamw("local_update", "");
}

// What the workers' momenta are for: gradients as the optimizer takes them.
std::vector<TensorSpec> sent_tensors(const config::Recipe& recipe,
                                     std::span<const TensorSpec> tensors) {
  return gradient_tensors(optimizer_options(recipe), tensors);
}

int64_t payload_bound(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const DistroOptions& options = distro(recipe);
  return distro_payload_bound(plan_tiles(sent_tensors(recipe, tensors), options.tiles()),
                              value_bits(options.values));
}

// The largest number of bits of one tile: every tile of a tensor may need the bit that says whether
// it is full, and a tile that is not full needs its count. The sender's Rice parameter costs no
// more than the best one.
double tile_bound_bits(int64_t slots, int64_t kept, int64_t most, int value_bits) {
  const auto count_bits = static_cast<double>(std::bit_width(static_cast<uint64_t>(kept - 1)));
  double best = std::numeric_limits<double>::infinity();
  for (int rice = 0; rice <= kMaxRiceParameter; ++rice) {
    // If `rest` slots are left after the last gap, the last slot takes bit_width(rest) bits, at
    // most rice + rest / 2^rice.
    const auto bits = [&](int64_t sent) {
      if (sent == 0) return 0.0;
      if (sent == 1) {
        return static_cast<double>(std::bit_width(static_cast<uint64_t>(slots - 1)) + value_bits);
      }
      return static_cast<double>(sent * (1 + rice + value_bits) - 1) +
             std::ldexp(static_cast<double>(slots - sent), -rice);
    };
    const double partial = count_bits + bits(std::min(most, kept - 1));
    best = std::min(best, 1 + (most < kept ? partial : std::max(bits(kept), partial)));
  }
  return best;
}

// Of the tiles of a tensor that have at most `most` slots each.
int64_t tensor_bound(const TensorTiles& tensor, int64_t most, int value_bits) {
  const double bits = static_cast<double>(tensor.tiles()) *
                      tile_bound_bits(tensor.slots(), tensor.kept, most, value_bits);
  const int64_t whole = segment_tiles(tensor.kept);
  const int64_t segments = (tensor.tiles() + whole - 1) / whole;
  // Slots and values of a segment are each padded to a whole byte.
  return static_cast<int64_t>(std::ceil(bits / 8)) + segments * (kSegmentEntryBytes + 2);
}

// The sum of a round's payloads; 0: there is none.
double sum_bound(const config::Recipe& recipe, std::span<const TensorSpec> tensors, int members) {
  const DistroOptions& options = distro(recipe);
  if (!options.sums.formed()) return 0;
  const std::vector<TensorSpec> sent = sent_tensors(recipe, tensors);
  return static_cast<double>(sparse_sum_bound(
      plan_tiles(sent, options.tiles()), plan_tiles(sent, options.of_sum().tiles()),
      static_cast<uint64_t>(members), options.sums.values()));
}

Traffic traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors, int members) {
  const DistroOptions& options = distro(recipe);
  const auto payload = static_cast<double>(payload_bound(recipe, tensors));
  const Traffic of_round{
      .sent_bytes = members > 1 ? payload : 0,
      .received_bytes = (members - 1) * payload,
      .round_trips = members > 1 ? 1.0 : 0.0,
      .exact = false,
      .overlap_steps = static_cast<double>(options.overlap * options.local_steps),
      .gathered_sum = {payload, sum_bound(recipe, tensors, members)}};
  const Traffic mean = per_step(of_round, {recipe.train.steps, options.local_steps});
  // Within clusters the method of these sends them.
  return recipe.sync.clustered() ? mean : with_speeds(mean, recipe, members);
}

// Payloads of a round are waited for when the `overlap`-th round after it closes.
OperationsAfter operations(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                           RunKind /*kind*/) {
  const DistroOptions& options = distro(recipe);
  const schedule::Rounds rounds{recipe.train.steps, options.local_steps};
  const auto bytes = static_cast<uint64_t>(payload_bound(recipe, tensors));
  return [rounds, bytes, overlap = options.overlap](int64_t step) -> std::vector<Operation> {
    if (!rounds.closes(step)) return {};
    const int64_t number = rounds.number(step);
    return {{.round = static_cast<uint64_t>(number),
             .bytes = bytes,
             .due = std::min((number + 1 + overlap) * rounds.every, rounds.steps)}};
  };
}

int64_t sync_every(const config::Recipe& recipe) { return distro(recipe).local_steps; }

std::vector<StatePiece> muon_state(const OptimizerOptions& /*options*/, const TensorSpec& tensor) {
  if (!tensor.is_hidden_matrix()) return {};
  return {{"distro.muon", tensor.shape}};
}

double muon_bytes(std::span<const TensorSpec> tensors) {
  OptimizerOptions muon;
  muon.spec = &kDistroMuon;
  return optimizer_state(muon, tensors).consensus;
}

StateBytes state(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
  const DistroOptions& options = distro(recipe);
  const double arena =
      sizeof(float) * static_cast<double>(arena_elements(sent_tensors(recipe, tensors)));
  StateBytes bytes;
  if (options.update == DistroUpdate::kAdamW) bytes.consensus += optimizer_bytes(recipe, tensors);
  if (options.update == DistroUpdate::kMuon) bytes.consensus += muon_bytes(tensors);
  if (!options.stateless()) bytes.local += arena;
  if (options.local_steps > 1) {
    bytes.consensus += arena;  // the shared weights, apart from the local ones
    bytes.local += arena;      // the local delta
    if (options.local_update == DistroUpdate::kAdamW) {
      bytes.local += optimizer_bytes(recipe, tensors);
    }
  }
  if (options.overlap > 0) bytes.local += static_cast<double>(payload_bound(recipe, tensors));
  return bytes;
}

}  // namespace

void DistroOptions::describe(config::Fields& fields) {
  fields.integer("chunk", chunk, "elements", 1, kMaxChunk,
                 "Largest side of the tiles that tensors are cut into; the side is the largest "
                 "divisor of the dimension up to this.");
  fields.integer("k", k, "coefficients", 1, kMaxChunk * kMaxChunk,
                 "Coefficients sent every step for a full tile of chunk * chunk elements.");
  fields.flag("fixed_k", fixed_k,
              "Send k coefficients for smaller tiles too, instead of their share of k.");
  fields.number("decay", decay, "", 0, 1, "Decay of the momentum, per step.");
  fields.choice(
      "values", values,
      {ValueFormat::kF32, ValueFormat::kBf16, ValueFormat::kInt8, ValueFormat::kOneBit},
      "Number format of the coefficients on the wire; int8 and 1bit use one scale per tensor.");
  fields.flag("feedback", feedback,
              "Keep the quantisation error of the values in the momentum, to be sent later.");
  fields.choice("aggregate", aggregate,
                "Divide a slot's sum by the number of workers that sent it, or by the number of "
                "all workers in the round.");
  sums.describe(fields, "coefficients");
  fields.choice("update", update,
                "What is done with the aggregate: a step of size lr by its sign; an AdamW step "
                "with it as the gradient, or GaLore's in seeded bases; plain subtraction; or, for "
                "the matrices of the blocks, a "
                "step along an orthogonalized momentum of the aggregates (the sign for the rest).");
  fields.number("muon_momentum", muon_momentum, "", 0, 0.999'999'999,
                "With update = muon: decay of the momentum of the aggregates, per step.");
  fields.number("muon_scale", muon_scale, "", 0, 1e6,
                "With update = muon: root mean square of a matrix's step, as a multiple of lr.");
  fields.choice("transform", transform,
                "Basis in which the largest coefficients are chosen: the discrete cosine "
                "transform, or the parameters themselves.");
  fields.choice("client", client,
                "Whether a worker keeps a momentum and sends the largest part of it, or keeps "
                "nothing and sends the largest part of the delta of its local steps.");
  fields.integer("local_steps", local_steps, "steps", 1, 1'000'000'000,
                 "Steps that a stateless client takes on its own before it sends; the workers "
                 "synchronise after this many steps and at the end of the run.");
  fields.choice("local_update", local_update,
                {DistroUpdate::kSgd, DistroUpdate::kSign, DistroUpdate::kAdamW},
                "The local step of a stateless client: lr times the gradient, lr times its sign, "
                "or an AdamW step whose state starts afresh in every round.");
  fields.integer("overlap", overlap, "rounds", 0, 1,
                 "Number of rounds that payloads may be in flight while the next one is computed; "
                 "with 1 every update is applied one round late.");
  fields.flag("look_ahead", look_ahead,
              "With overlap: compute gradients one step ahead, after a step of size lr by the sign "
              "of the worker's own momentum, which is then undone exactly.");
}

int64_t distro_payload_bound(const TilePlan& plan, int value_bits) {
  int64_t bytes = static_cast<int64_t>(kPayloadHeaderBytes) + kValueFormatBytes;
  for (const TensorTiles& tensor : plan.tensors) {
    bytes += kScaleBytes + tensor_bound(tensor, tensor.kept, value_bits);
  }
  return bytes;
}

DistroOptions DistroOptions::of_sum() const {
  DistroOptions options = *this;
  options.k = sums.kept(chunk * chunk);
  options.values = sums.values();
  return options;
}

uint64_t sparse_sum_bound(const TilePlan& sent, const TilePlan& kept, uint64_t payloads,
                          ValueFormat values) {
  int64_t bytes = kValueFormatBytes;
  for (size_t tensor = 0; tensor < kept.tensors.size(); ++tensor) {
    const auto most = static_cast<int64_t>(payloads) * sent.tensors[tensor].kept;
    bytes += 2 * kScaleBytes + tensor_bound(kept.tensors[tensor], most, value_bits(values));
  }
  return static_cast<uint64_t>(bytes);
}

double distro_entropy_bits(const TilePlan& plan, int value_bits) {
  double bits = 0;
  for (const TensorTiles& tensor : plan.tensors) {
    double tile = static_cast<double>(tensor.kept) * value_bits;
    for (int i = 0; i < tensor.kept; ++i) {
      tile += std::log2(static_cast<double>(tensor.slots() - i) / (tensor.kept - i));
    }
    bits += tile * static_cast<double>(tensor.tiles());
  }
  return bits;
}

const OptimizerSpec kDistroMuon = {
    .name = "muon",
    .sentence = "DisTrO's update of that name.",
    .options = nullptr,
    .check = nullptr,
    .state = muon_state,
};

const Method kDistro = {
    .name = "distro",
    .sentence =
        "Sends the largest DCT coefficients of each worker's own momentum, hundreds of times "
        "fewer bytes than gradients.",
    .options = options,
    .check = check,
    .traffic = traffic,
    .state = state,
    .sync_every = sync_every,
    .operations = operations,
};

const std::span<const Method> kDistroMethods(&kDistro, 1);

}  // namespace thinwire::method

#include "thinwire/methods/diloco/diloco_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/gradient_sums.h"
#include "thinwire/method/method.h"
#include "thinwire/method/within.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::method {
namespace {

constexpr std::string_view kAlgorithm = "diloco";
constexpr int64_t kFragmentLayers = 3;  // of streaming, by default

struct DilocoPreset {
  const char* name;
  const char* sentence;
  void (*set_defaults)(DilocoOptions& options);
};

int64_t layers_of(std::span<const TensorSpec> tensors) {
  int64_t layers = 0;
  for (const TensorSpec& tensor : tensors) layers = std::max<int64_t>(layers, tensor.layer + 1);
  return layers;
}

// For fields that have a meaning only with a certain value of another field.
void require(std::string_view table, bool holds, std::string_view message) {
  if (!holds) throw UsageError(fmt::format("[{}] {}", table, message));
}

// The number of values in every fragment.
std::vector<int64_t> fragment_elements(std::span<const TensorSpec> tensors,
                                       const FragmentRule& rule) {
  std::vector<int64_t> elements;
  for (int64_t fragment = 0; fragment < fragment_count(layers_of(tensors), rule); ++fragment) {
    elements.push_back(method::fragment_elements(tensors, rule, fragment));
  }
  return elements;
}

void check_overlap(std::string_view table, const DilocoOptions& options, int64_t fragments) {
  const DilocoOptions defaults;
  const bool inner = options.overlap == Overlap::kInner;
  const std::string_view overlap = name_of(options.overlap);
  require(table, inner || options.overlap_steps == defaults.overlap_steps,
          fmt::format("overlap_steps = {} needs overlap = \"inner\", got \"{}\"",
                      options.overlap_steps, overlap));
  require(table, inner || options.mix == defaults.mix,
          fmt::format("mix = {} needs overlap = \"inner\", got \"{}\": only there do sums arrive "
                      "at weights that have changed meanwhile",
                      options.mix, overlap));
  require(table, options.eager() || options.depth == defaults.depth,
          fmt::format("depth = {} needs overlap = \"eager\", got \"{}\"", options.depth, overlap));
  require(table, options.overlap != Overlap::kNone || options.overlap_after == 0,
          fmt::format("overlap_after = {} needs overlap = \"inner\", \"delayed\" or \"eager\", got "
                      "\"none\"",
                      options.overlap_after));
  require(table, !inner || options.overlap_steps * fragments < options.sync_every,
          fmt::format("overlap_steps must be < sync_every / fragments = {} / {}, got {}: a sum "
                      "must arrive before the next fragment is sent",
                      options.sync_every, fragments, options.overlap_steps));
}

void check_outer_step(std::string_view table, const DilocoOptions& options) {
  const DilocoOptions defaults;
  require(table,
          options.outer != OuterOptimizer::kAverage || options.outer_lr == defaults.outer_lr ||
              options.outer_lr == 1,
          fmt::format("outer_lr = {} contradicts outer = \"average\", whose rate is 1; outer = "
                      "\"sgd\" takes any rate",
                      options.outer_lr));
  require(table,
          options.has_momentum() || options.outer_momentum == defaults.outer_momentum ||
              options.outer_momentum == 0,
          fmt::format("outer_momentum = {} needs outer = \"nesterov\" or \"momentum\", got \"{}\"",
                      options.outer_momentum, name_of(options.outer)));
}

void check_error_place(std::string_view table, const DilocoOptions& options) {
  if (options.error_in == ErrorPlace::kBuffer) return;
  require(table, options.error_feedback,
          "error_in = \"weights\" needs error_feedback = true: without it nothing is kept");
  require(table, options.overlap == Overlap::kNone,
          fmt::format("error_in = \"weights\" needs overlap = \"none\", got \"{}\": weights that "
                      "keep an error cannot change while a sum is in flight",
                      name_of(options.overlap)));
}

// A sum in fewer bits than what it adds up would lose more than they have.
void check_sum_wire(std::string_view table, const DilocoOptions& options,
                    const config::Recipe& recipe) {
  if (options.sum_wire == SumWire::kSame) return;
  const std::string_view name = name_of(options.sum_wire);
  const WireType sent = options.formats().sent, sum = options.formats().sum;
  require(table,
          wire_bytes(sum, wire_block(sum)) * wire_block(sent) >=
              wire_bytes(sent, wire_block(sent)) * wire_block(sum),
          fmt::format("sum_wire = \"{}\" must have at least as many bits as wire = \"{}\"", name,
                      wire_name(sent)));
  require(table, !recipe.sync.aggregation().robust(),
          fmt::format("sum_wire = \"{}\" needs sync.aggregate = \"mean\", got \"{}\": that rule "
                      "judges contributions one by one, so members receive each of them",
                      name, name_of(recipe.sync.aggregate)));
}

// Masked values are words of 32 bits that are added at once, and hide what they lose.
void check_secure(std::string_view table, const DilocoOptions& options,
                  const config::Recipe& recipe) {
  if (!recipe.privacy.secure_sums) return;
  const auto needs = [&](bool holds, std::string_view what, std::string_view got) {
    if (holds) return;
    throw UsageError(
        fmt::format("[privacy] secure_sums = true needs [{}] {}, got \"{}\"", table, what, got));
  };
  needs(options.wire == WireType::kF32, "wire = \"fp32\", since hidden values have 32 bits",
        wire_name(options.wire));
  needs(options.sum_wire == SumWire::kSame, "sum_wire = \"same\"", name_of(options.sum_wire));
  needs(options.overlap == Overlap::kNone,
        "overlap = \"none\", since its operations come one after the other",
        name_of(options.overlap));
  require("privacy", options.fragment_layers == 0,
          "secure_sums = true needs a method that exchanges the whole model at once, local_sgd or "
          "diloco, got \"streaming\"");
}

// Whether contributions are gathered instead of being summed by the transport.
bool gathers(const DilocoOptions& options, const config::Recipe& recipe) {
  return recipe.sync.aggregation().robust() || options.gathers();
}

// Steps that a fragment's sum may be in flight before a worker waits for it.
double steps_in_flight(const DilocoOptions& options) {
  if (options.overlap == Overlap::kNone) return 0;
  if (options.overlap == Overlap::kInner) return static_cast<double>(options.overlap_steps);
  return static_cast<double>(options.sync_every * (options.eager() ? options.depth : 1));
}

// Every send is a sum over the clusters (base/wire.h).
Traffic traffic_of(const DilocoOptions& options, const config::Recipe& recipe,
                   std::span<const TensorSpec> tensors, int members) {
  const std::vector<int64_t> elements = fragment_elements(tensors, options.fragments());
  const auto fragments = static_cast<int64_t>(elements.size());
  const schedule::FragmentSchedule schedule{recipe.train.steps, options.sync_every, fragments};
  const int clusters = clusters_of(recipe.sync, members).count;
  Traffic run{.round_trips = 0};
  double contributed = 0, summed = 0;  // bytes of contributions and sums
  std::vector<Piece> pieces;
  for (int64_t fragment = 0; fragment < fragments; ++fragment) {
    const auto values = static_cast<uint64_t>(elements[static_cast<size_t>(fragment)]);
    const auto bytes = static_cast<double>(wire_bytes(options.wire, values));
    const auto sum_bytes = static_cast<double>(wire_bytes(options.formats().sum, values));
    const Piece all = sum_traffic(gathers(options, recipe), bytes, sum_bytes, clusters);
    Traffic send;
    send.sent_bytes = all.sent_bytes / members;
    send.received_bytes = all.received_bytes / members;
    send.round_trips = all.round_trips;
    pieces.push_back({all.sent_bytes / clusters, all.received_bytes / clusters, all.round_trips,
                      sizeof(float) * static_cast<double>(values), all.sum_share});
    send = add_broadcast(send, recipe, static_cast<double>(values), members);
    const auto times = static_cast<double>(schedule.sent(fragment, schedule.steps));
    run.sent_bytes += times * send.sent_bytes;
    run.received_bytes += times * send.received_bytes;
    run.round_trips += times * send.round_trips;
    contributed += times * bytes;
    summed += times * sum_bytes;
  }
  const auto steps = static_cast<double>(schedule.steps);
  Traffic traffic = within_traffic(recipe, tensors, members);
  traffic.sent_bytes += run.sent_bytes / steps;
  traffic.received_bytes += run.received_bytes / steps;
  traffic.round_trips += run.round_trips / steps;
  traffic.overlap_steps = steps_in_flight(options);
  traffic.overlap_after = options.overlap_after;
  // Inactive workers send nothing.
  traffic.exact = traffic.exact && recipe.sync.absent.empty();
  traffic.pieces = std::move(pieces);
  traffic.sum_share = summed / contributed;
  return with_speeds(traffic, recipe, members);
}

// The steps completed when the sum of a fragment's `number`-th send is waited for.
int64_t due_after(const DilocoOptions& options, const schedule::FragmentSchedule& schedule,
                  int64_t fragment, int64_t number) {
  const int64_t sent = schedule.sent_after(fragment, number);
  if (!options.overlaps(number)) return sent;
  if (options.overlap == Overlap::kInner) {
    return std::min(sent + options.overlap_steps, schedule.steps);
  }
  const int64_t later = number + options.in_flight();
  const bool ends_before = later > schedule.sent(fragment, schedule.steps);
  return ends_before ? schedule.steps : schedule.sent_after(fragment, later);
}

// A sum whose contributions are hidden (sync/private_sum.h).
void add_secure(const Operation& sum, std::vector<Operation>& all) {
  const auto add = [&](uint32_t fragment, uint64_t bytes) {
    Operation gather = sum;
    gather.collective = Collective::kGather;
    gather.fragment = fragment;
    gather.bytes = bytes;
    gather.turn = static_cast<int>(all.size());
    all.push_back(gather);
  };
  add(kMaskKeysFragment, kMaskKeysBytes);
  add(kMaskSharesFragment, kMostSecureMembers * kMaskSharesBytes);
  all.push_back(sum);
  all.back().turn = static_cast<int>(all.size()) - 1;
  add(kRevealsFragment, kMostSecureMembers * kRevealBytes);
}

// What is sent of one fragment after a step, and what arrives and is passed on within clusters.
// `values`: the fragment's.
void add_operations(const DilocoOptions& options, const config::Recipe& recipe,
                    const schedule::FragmentSchedule& schedule, int64_t fragment, uint64_t values,
                    int64_t completed, std::vector<Operation>& all) {
  const int64_t sent = schedule.sent(fragment, completed);
  for (int64_t number = std::max<int64_t>(sent - options.in_flight(), 1); number <= sent;
       ++number) {
    const int64_t opened = schedule.sent_after(fragment, number);
    const int64_t due = due_after(options, schedule, fragment, number);
    if (opened != completed && due != completed) continue;
    const Operation sum{
        .collective = gathers(options, recipe) ? Collective::kGather : Collective::kReduce,
        .group = across(recipe.sync),
        .round = static_cast<uint64_t>(opened - 1),
        .fragment = static_cast<uint32_t>(fragment),
        .bytes = wire_bytes(options.wire, values),
        .due = due};
    if (opened == completed && recipe.privacy.secure_sums) {
      add_secure(sum, all);
    } else if (opened == completed) {
      all.push_back(sum);
    }
    if (due == completed && recipe.sync.clustered()) all.push_back(broadcast_of(sum, values));
  }
}

OperationsAfter operations_of(const DilocoOptions& options, const config::Recipe& recipe,
                              std::span<const TensorSpec> tensors) {
  const int64_t fragments = fragment_count(layers_of(tensors), options.fragments());
  const schedule::FragmentSchedule schedule{recipe.train.steps, options.sync_every, fragments};
  std::vector<uint64_t> values;
  for (int64_t fragment = 0; fragment < fragments; ++fragment) {
    values.push_back(
        static_cast<uint64_t>(fragment_elements(tensors, options.fragments(), fragment)));
  }
  return [&options, &recipe, schedule, values](int64_t step) {
    std::vector<Operation> all;
    for (size_t fragment = 0; fragment < values.size(); ++fragment) {
      add_operations(options, recipe, schedule, static_cast<int64_t>(fragment), values[fragment],
                     step + 1, all);
    }
    return all;
  };
}

constexpr DilocoPreset kPresets[] = {
    {"local_sgd",
     "Trains the workers independently for some steps, then steps along their mean "
     "pseudo-gradient.",
     [](DilocoOptions& options) { options.sync_every = 32; }},
    {"diloco",
     "Trains the workers independently for many steps, then takes a Nesterov step along their mean "
     "pseudo-gradient.",
     [](DilocoOptions&) {}},
    {"streaming",
     "Trains the workers independently and steps along their mean pseudo-gradient, a few layers at "
     "a time, while training continues.",
     [](DilocoOptions& options) {
       options.fragment_layers = kFragmentLayers;
       options.wire = WireType::kFp4;
       options.overlap = Overlap::kInner;
     }},
};

// The spec of a preset (method/method.h).
template <size_t kPreset>
struct PresetFacts {
  static const DilocoOptions& of(const config::Recipe& recipe) {
    return recipe.section<DilocoOptions>(kPresets[kPreset].name);
  }
  static std::unique_ptr<config::Section> options() {
    auto options = std::make_unique<DilocoOptions>();
    kPresets[kPreset].set_defaults(*options);
    return options;
  }
  static void check(const config::Recipe& recipe) {
    check_diloco(kPresets[kPreset].name, of(recipe), recipe);
  }
  static Traffic traffic(const config::Recipe& recipe, std::span<const TensorSpec> tensors,
                         int members) {
    return traffic_of(of(recipe), recipe, tensors, members);
  }
  static StateBytes state(const config::Recipe& recipe, std::span<const TensorSpec> tensors) {
    return diloco_state(of(recipe), recipe, tensors);
  }
  static int64_t sync_every(const config::Recipe& recipe) { return of(recipe).sync_every; }
  static OperationsAfter operations(const config::Recipe& recipe,
                                    std::span<const TensorSpec> tensors, RunKind /*kind*/) {
    return operations_of(of(recipe), recipe, tensors);
  }
};

template <size_t... kPreset>
constexpr std::array<Method, sizeof...(kPreset)> methods_of(std::index_sequence<kPreset...>) {
  return {Method{.name = kPresets[kPreset].name,
                 .sentence = kPresets[kPreset].sentence,
                 .options = PresetFacts<kPreset>::options,
                 .check = PresetFacts<kPreset>::check,
                 .traffic = PresetFacts<kPreset>::traffic,
                 .state = PresetFacts<kPreset>::state,
                 .sync_every = PresetFacts<kPreset>::sync_every,
                 .local_updates = true,
                 .sums_late = true,
                 .makes_private = true,
                 .algorithm = kAlgorithm,
                 .operations = PresetFacts<kPreset>::operations}...};
}

constexpr std::array kMethods = methods_of(std::make_index_sequence<std::size(kPresets)>());

}  // namespace

void DilocoOptions::describe(config::Fields& fields) {
  fields.integer("sync_every", sync_every, "steps", 1, 1'000'000'000,
                 "Steps that a worker trains on its own before it sends its pseudo-gradient; all "
                 "workers also send at the end of the run.");
  if (fragment_layers > 0) {
    fields.integer("fragment_layers", fragment_layers, "layers", 1, 10'000,
                   "Layers of a fragment; fragments are sent one after another, spread evenly over "
                   "sync_every steps.");
    fields.integer("slices", slices, "fragments", 0, 100'000,
                   "Fragments that are each an equal part of every tensor, instead of layers; 0: "
                   "none.");
  }
  fields.choice(
      "outer", outer,
      "Optimizer that steps along the workers' mean pseudo-gradient; average takes the mean "
      "of their weights.");
  fields.number_above("outer_lr", outer_lr, "", 0, 100,
                      "Learning rate of the outer step; it follows no schedule.");
  fields.number("outer_momentum", outer_momentum, "", 0, 0.999'999'999,
                "Decay of the outer momentum, per outer step.");
  fields.choice(
      "wire", wire,
      "Number format in which pseudo-gradients and their sums are sent; sums are formed in "
      "fp32.");
  fields.choice("sum_wire", sum_wire,
                "Number format in which sums are sent, with at least as many bits as wire; same: "
                "that of wire, where with int1, and with error_in = weights, each worker receives "
                "all contributions instead.");
  fields.flag(
      "error_feedback", error_feedback,
      "Keep what a pseudo-gradient loses in the number format, and send it with the next one.");
  fields.choice("error_in", error_in,
                "With error_feedback: where that is kept; in weights, a worker goes on training "
                "from what it has learned and not yet sent, and needs no buffer.");
  fields.choice(
      "overlap", overlap,
      "What workers do while sums are in flight: wait; take overlap_steps steps; take all "
      "steps up to the next outer one, from weights one outer step late; or the same with "
      "their own pseudo-gradient applied at once.");
  fields.integer("overlap_steps", overlap_steps, "steps", 0, 1'000'000'000,
                 "With overlap = inner: number of steps after which sums are applied.");
  fields.number("mix", mix, "", 0, 1,
                "With overlap = inner: share of the worker's own weights when it mixes them with "
                "the new shared ones; 0 takes the shared weights as they are.");
  fields.integer("depth", depth, "outer steps", 1, 2,
                 "With overlap = eager: number of outer steps that sums may be in flight.");
  fields.integer("overlap_after", overlap_after, "outer steps", 0, 1'000'000'000,
                 "Number of outer steps at the start of the run that do not overlap: workers wait "
                 "for their sums.");
}

SumFormats DilocoOptions::formats() const {
  constexpr WireType kFormats[] = {WireType::kF32, WireType::kF32, WireType::kBf16, WireType::kFp8,
                                   WireType::kFp4};
  return {wire, sum_wire == SumWire::kSame ? wire : kFormats[static_cast<size_t>(sum_wire)]};
}

int64_t DilocoOptions::in_flight() const {
  if (overlap == Overlap::kNone) return 0;
  if (overlap == Overlap::kInner) return overlap_steps > 0 ? 1 : 0;
  return eager() ? depth : 1;
}

int64_t DilocoOptions::buffers() const {
  const int64_t sums = in_flight();
  // If sums are late by outer steps, one is sent before an older one is waited for.
  return overlap == Overlap::kDelayed || eager() ? sums + 1 : sums;
}

int64_t fragment_count(int64_t layers, const FragmentRule& rule) {
  if (rule.slices > 0) return rule.slices;
  if (rule.layers == 0) return 1;
  return std::max<int64_t>(1, (layers + rule.layers - 1) / rule.layers);
}

int64_t fragment_elements(std::span<const TensorSpec> tensors, const FragmentRule& rule,
                          int64_t fragment) {
  int64_t elements = 0;
  if (rule.slices > 0) {
    int64_t largest = 0;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const int64_t padded = arena_elements(tensors.subspan(t, 1));
      largest = std::max(largest, padded);
      elements += slice_begin(padded, fragment + 1, rule.slices) -
                  slice_begin(padded, fragment, rule.slices);
    }
    if (rule.slices <= largest / kArenaAlignment) return elements;
    throw UsageError(
        fmt::format("slices must be <= {} (lines of {} values in the model's largest "
                    "tensor), got {}",
                    largest / kArenaAlignment, kArenaAlignment, rule.slices));
  }
  const std::vector<int64_t> fragments = fragments_of(tensors, rule.layers);
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (fragments[t] == fragment) elements += arena_elements(tensors.subspan(t, 1));
  }
  return elements;
}

int64_t slice_begin(int64_t padded, int64_t slice, int64_t slices) {
  return padded / kArenaAlignment * slice / slices * kArenaAlignment;
}

std::vector<int64_t> fragments_of(std::span<const TensorSpec> tensors, int64_t fragment_layers) {
  const int64_t count = fragment_count(layers_of(tensors), {fragment_layers});
  std::vector<int64_t> fragments;
  fragments.reserve(tensors.size());
  for (const TensorSpec& tensor : tensors) {
    if (tensor.layer >= 0) {
      fragments.push_back(tensor.layer % count);
    } else {
      fragments.push_back(tensor.is_of_embedding() ? 0 : count - 1);
    }
  }
  return fragments;
}

void check_diloco(std::string_view table, const DilocoOptions& options,
                  const config::Recipe& recipe) {
  check_within(recipe);
  check_outer_step(table, options);
  check_overlap(table, options, fragment_count(recipe.model.layers, options.fragments()));
  check_error_place(table, options);
  check_sum_wire(table, options, recipe);
  check_secure(table, options, recipe);
  require(table, options.slices == 0 || options.fragment_layers == kFragmentLayers,
          fmt::format("fragment_layers = {} contradicts slices = {}, of which each has a part of "
                      "every layer",
                      options.fragment_layers, options.slices));
  require(table, !options.gathers() || recipe.sync.late == config::LateContributions::kDrop,
          "wire = \"int1\" and error_in = \"weights\" need sync.late = \"drop\", got \"count\", or "
          "a sum_wire: without one the members add up the contributions of one round");
  require(table, !options.error_feedback || options.wire != WireType::kF32,
          "error_feedback = true needs wire bf16, fp8, fp4, int2 or int1: fp32 has no error to "
          "feed back");
}

StateBytes diloco_state(const DilocoOptions& options, const config::Recipe& recipe,
                        std::span<const TensorSpec> tensors) {
  const double arena = sizeof(float) * static_cast<double>(arena_elements(tensors));
  const int consensus = options.has_momentum() ? 2 : 1;  // shared weights, v
  int corrections = 0;                                   // e, u
  if (options.eager()) corrections = options.has_momentum() ? 2 : 1;
  const std::vector<int64_t> elements = fragment_elements(tensors, options.fragments());
  const auto fragments = static_cast<int64_t>(elements.size());
  const auto local = static_cast<double>(options.buffers() + corrections) +
                     (options.passes_buffer(fragments) ? 1.0 : 0.0);
  double error = options.error_feedback ? arena : 0;
  if (options.keeps_error_in_weights()) {  // one fragment's, on its way there
    error = sizeof(float) * static_cast<double>(*std::ranges::max_element(elements));
  }
  const auto workers = static_cast<int>(recipe.train.workers);
  // Every fragment is sent at the end of the run.
  const auto in_flight = static_cast<double>(std::max<int64_t>(options.buffers(), 1));
  const double sums = in_flight * sum_memory(gathers(options, recipe), arena / sizeof(float),
                                             options.wire, clusters_of(recipe.sync, workers).count);
  return {consensus * arena, local * arena + error + within_state(recipe, tensors),
          sums + within_sums(recipe, tensors)};
}

const std::span<const Method> kDilocoMethods = kMethods;

}  // namespace thinwire::method

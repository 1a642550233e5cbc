#include "tests/launch/method_variants.h"

#include <utility>

#include "tests/tiny_run.h"
#include "thinwire/method/registry.h"

namespace thinwire::launch {
namespace {

// Twelve steps are a whole number of rounds or not; sums are in flight at most checkpoints.
void append_outer_variants(std::vector<Variant>& variants) {
  const auto add = [&](const std::string& method, const char* name,
                       std::vector<std::string> fields) {
    for (std::string& field : fields) field = method + "." + field;
    variants.push_back({&method::find_method(method), method + "_" + name, std::move(fields)});
  };
  add("local_sgd", "average", {"sync_every=1", "outer=average", "wire=fp32"});
  add("local_sgd", "momentum", {"sync_every=4", "outer=momentum", "outer_lr=0.3"});
  add("diloco", "inner", {"sync_every=5", "overlap=inner", "overlap_steps=3"});
  add("diloco", "inner_at_once", {"sync_every=4", "overlap=inner", "overlap_steps=0", "mix=0.25"});
  add("diloco", "delayed", {"sync_every=3", "overlap=delayed", "outer_lr=0.4"});
  add("diloco", "eager", {"sync_every=3", "overlap=eager"});
  add("diloco", "eager_far",
      {"sync_every=2", "overlap=eager", "depth=2", "outer=sgd", "wire=fp8", "error_feedback=true"});
  add("diloco", "eager_after",
      {"sync_every=2", "overlap=eager", "depth=2", "overlap_after=2", "error_feedback=true"});
  add("diloco", "int2", {"sync_every=4", "wire=int2", "error_feedback=true"});
  add("diloco", "int1_weights",
      {"sync_every=4", "wire=int1", "error_feedback=true", "error_in=weights", "outer=sgd",
       "outer_lr=1.4"});
  variants.push_back({&method::find_method("diloco"),
                      "diloco_muon",
                      {"diloco.sync_every=4", "optim.method=muon"}});
  for (const char* within : {"allreduce", "distro"}) {
    variants.push_back(
        {&method::find_method("diloco"),
         std::string("diloco_within_") + within,
         {"diloco.sync_every=5", std::string("sync.within=") + within, "sync.clusters=1"}});
  }
  add("diloco", "bf16_feedback", {"sync_every=4", "error_feedback=true"});
  add("sparseloco", "small_chunks",
      {"sync_every=5", "chunk=50", "k=4", "outer=nesterov", "outer_lr=0.5"});
  add("sparseloco", "summed", {"sync_every=5", "chunk=50", "k=4", "sum_wire=2bit", "sum_k=5"});
  add("streaming", "inner", {"fragment_layers=1", "sync_every=7", "overlap_steps=3"});
  add("streaming", "inner_after",
      {"fragment_layers=1", "sync_every=5", "overlap_steps=1", "overlap_after=1"});
  add("streaming", "none", {"fragment_layers=1", "sync_every=5", "overlap=none", "wire=bf16"});
  add("streaming", "slices",
      {"slices=6", "sync_every=6", "overlap=none", "wire=int1", "error_feedback=true",
       "error_in=weights"});
  add("streaming", "slices_inner", {"slices=2", "sync_every=7", "overlap_steps=3"});
  add("streaming", "eager",
      {"fragment_layers=1", "sync_every=4", "overlap=eager", "error_feedback=true"});
}

// Clusters that exchange, workers that are slower than others, workers that leave and come back.
void append_member_variants(std::vector<Variant>& variants) {
  const auto add = [&](const std::string& method, const char* name,
                       std::vector<std::string> overrides, std::vector<std::string> together) {
    variants.push_back({&method::find_method(method), method + "_" + name, std::move(overrides),
                        std::move(together)});
  };
  const std::string two = "sync.clusters=2";
  add("diloco", "two_stages", {"diloco.sync_every=5", "diloco.overlap=eager"},
      {"sync.within=allreduce", two});
  add("sparseloco", "two_stages", {"sparseloco.sync_every=5"}, {"sync.within=distro", two});
  add("diloco", "two_stages_galore",
      {"diloco.sync_every=5", "distro.update=adamw", "optim.method=galore",
       "optim.gradients=projected", "galore.basis=seeded", "galore.refresh=4"},
      {"sync.within=distro", two});
  add("streaming", "two_stages", {"streaming.sync_every=5", "streaming.fragment_layers=1"},
      {"sync.within=distro", two});
  const std::vector<std::string> slow = {"sync.shares=speed", "train.batch=9", "links.step_s=1",
                                         "links.members=[\"0.step_s=2\"]"};
  const auto with_slow = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), slow.begin(), slow.end());
    return overrides;
  };
  add("local_sgd", "speed", with_slow({"local_sgd.sync_every=3"}), {});
  add("diloco", "speed_eager", with_slow({"diloco.sync_every=2", "diloco.overlap=eager"}), {});
  add("diloco", "two_stages_speed", with_slow({"diloco.sync_every=3"}),
      {"sync.within=distro", two});
  add("sparseloco", "speed", with_slow({"sparseloco.sync_every=3"}), {});
  add("diloco", "absent", {"diloco.sync_every=3"}, {"sync.absent=[\"1=2-3\"]"});
  add("diloco", "absent_eager",
      {"diloco.sync_every=2", "diloco.overlap=eager", "diloco.depth=2", "diloco.wire=fp4",
       "diloco.error_feedback=true"},
      {"sync.absent=[\"0=3-3\", \"1=1-2\"]"});
  add("streaming", "absent",
      {"streaming.sync_every=4", "streaming.fragment_layers=1", "streaming.overlap_steps=1"},
      {"sync.absent=[\"1=2-2\"]"});
  add("streaming", "absent_slices",
      {"streaming.sync_every=4", "streaming.slices=4", "streaming.overlap=none",
       "streaming.wire=int1", "streaming.error_feedback=true", "streaming.error_in=weights"},
      {"sync.absent=[\"1=2-2\"]"});
  add("sparseloco", "absent_speed", with_slow({"sparseloco.sync_every=2"}),
      {"sync.absent=[\"0=2-3\"]"});
}

// Weights that are updated during the backward pass.
void append_layer_variants(std::vector<Variant>& variants) {
  const auto add = [&](const std::string& method, const char* name,
                       std::vector<std::string> overrides, std::vector<std::string> together = {}) {
    overrides.emplace_back("train.update=layer");
    variants.push_back({&method::find_method(method), method + "_layer" + name,
                        std::move(overrides), std::move(together)});
  };
  add("allreduce", "", {"optim.clip_by=previous"});
  add("allreduce", "_fp4", {"optim.clip_by=tensor", "allreduce.wire=fp4", "model.tied=true"});
  add("diloco", "", {"diloco.sync_every=5", "optim.clip_by=previous"},
      {"sync.within=allreduce", "sync.clusters=2"});
  add("sparseloco", "", {"sparseloco.sync_every=5", "optim.clip=0"});
  add("streaming", "", {"streaming.fragment_layers=1", "streaming.sync_every=7", "optim.clip=0"});
}

// Every rule of aggregation, and every way in which contributions are gathered for one.
void append_aggregated_variants(std::vector<Variant>& variants) {
  const auto add = [&](const std::string& method, const std::string& rule,
                       std::vector<std::string> overrides, std::vector<std::string> together = {}) {
    overrides.push_back("sync.aggregate=" + rule);
    variants.push_back({&method::find_method(method), method + "_" + rule, std::move(overrides),
                        std::move(together)});
  };
  add("allreduce", "trimmed_mean", {"sync.trim=0.3"});
  add("allreduce", "norm_clipping", {"train.update=layer", "optim.clip_by=previous"});
  add("diloco", "majority_vote", {"diloco.sync_every=4"},
      {"sync.within=allreduce", "sync.clusters=2"});
  add("diloco", "trimmed_mean",
      {"diloco.sync_every=3", "diloco.overlap=eager", "diloco.wire=fp8",
       "diloco.error_feedback=true"});
  add("streaming", "norm_clipping", {"streaming.fragment_layers=1", "streaming.sync_every=7"});
  add("distro", "norm_clipping", {"distro.overlap=1"});
  add("distro", "majority_vote", {"distro.aggregate=mean_of_all"});
  add("sparseloco", "trimmed_mean", {"sparseloco.sync_every=5"});
}

}  // namespace

std::vector<Variant> all_variants() {
  std::vector<Variant> variants;
  for (const method::Method* method : method::all_methods()) {
    variants.push_back({method, std::string(method->name), {}});
  }
  const method::Method* distro = &method::find_method("distro");
  const std::string stateless = "distro.client=stateless";
  variants.push_back({distro, "distro_overlap", {"distro.overlap=1"}});
  variants.push_back({distro, "distro_look_ahead", {"distro.overlap=1", "distro.look_ahead=true"}});
  variants.push_back({distro, "distro_adamw_overlap", {"distro.overlap=1", "distro.update=adamw"}});
  variants.push_back({distro, "distro_muon_overlap", {"distro.overlap=1", "distro.update=muon"}});
  variants.push_back({distro,
                      "distro_galore",
                      {"distro.update=adamw", "optim.method=galore", "optim.gradients=projected",
                       "galore.basis=seeded", "galore.refresh=5"}});
  variants.push_back({distro, "distro_summed", {"distro.sum_wire=1bit", "distro.sum_k=40"}});
  variants.push_back(
      {distro, "distro_summed_overlap", {"distro.overlap=1", "distro.sum_wire=int8"}});
  variants.push_back({distro, "distro_stateless", {stateless}});
  // The last of its rounds is shorter, and checkpoints fall into the middle of others.
  variants.push_back({distro, "distro_local_steps", {stateless, "distro.local_steps=5"}});
  variants.push_back({distro,
                      "distro_local_steps_overlap",
                      {stateless, "distro.local_steps=3", "distro.overlap=1",
                       "distro.local_update=adamw", "eval.every=4"}});
  const method::Method* allreduce = &method::find_method("allreduce");
  variants.push_back({allreduce, "allreduce_whole", {"allreduce.hide=false"}});
  variants.push_back({allreduce, "allreduce_passes", {"train.microbatch=1", "model.tied=true"}});
  variants.push_back({allreduce,
                      "allreduce_galore",
                      {"optim.method=galore", "optim.gradients=projected", "galore.basis=seeded",
                       "galore.refresh=5"}});
  append_outer_variants(variants);
  append_member_variants(variants);
  append_layer_variants(variants);
  append_aggregated_variants(variants);
  return variants;
}

config::Recipe variant_recipe(const Variant& variant, const fs::path& folder,
                              std::vector<std::string> overrides, int workers) {
  overrides.push_back("sync.method=" + std::string(variant.method->name));
  overrides.push_back("train.workers=" + std::to_string(workers));
  const auto add = [&](const std::vector<std::string>& more) {
    overrides.insert(overrides.end(), more.begin(), more.end());
  };
  add(variant.overrides);
  if (workers > 1) add(variant.together);
  return tiny_recipe(folder, std::move(overrides));
}

}  // namespace thinwire::launch

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/convert/peft.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::convert {
namespace {

// The weights of a base that the run did not change.
void take_base(const fs::path& folder, const fs::path& base, LoadedModel& loaded) {
  LoadedModel model = load_base(folder, base);
  if (!same_tensors(method::tensors_of(loaded.model), model.layout->specs())) {
    throw Error(
        fmt::format("the factors in {} belong to another model than that in {}, which has "
                    "other tensors",
                    folder.string(), base.string()));
  }
  checkpoint::check_adapter_base(folder, checkpoint::read_adapter_base(folder), base,
                                 checkpoint::digest_weights(*model.params));
  loaded.layout = std::move(model.layout);
  loaded.params = std::move(model.params);
}

// The weights of a base that the checkpoint holds, as the run's merges have left it.
void read_merged_base(const checkpoint::CheckpointReader& reader,
                      std::vector<TensorSpec> frozen_tensors, LoadedModel& loaded) {
  const tensor::Layout layout(std::move(frozen_tensors));
  tensor::Arena frozen(layout);
  reader.read_consensus(checkpoint::kMergedBase, frozen.all());
  checkpoint::copy_common(frozen, *loaded.params);
}

}  // namespace

LoadedModel load_base(const fs::path& folder, const fs::path& base) {
  try {
    return load_model(base);
  } catch (const Error& error) {
    throw Error(fmt::format(
        "the factors in {} need the model that they were trained on: {}\nif it is elsewhere, name "
        "its folder with --base",
        folder.string(), error.what()));
  }
}

void merge_adapter(const tensor::Arena& trained, const method::AdapterSpec& adapter,
                   LoadedModel& loaded) {
  ThreadPool threads(available_cores());
  checkpoint::copy_common(trained, *loaded.params);
  checkpoint::add_adapter(trained, adapter, *loaded.params, threads);
}

void read_adapted(const checkpoint::CheckpointReader& reader, const config::Recipe& recipe,
                  const fs::path& base, LoadedModel& loaded) {
  method::AdaptedTensors tensors = method::adapted_tensors(loaded.model, recipe.adapter);
  const method::AdapterFacts& facts = method::facts_of(recipe.adapter);
  if (facts.has_base && !facts.merges) {
    take_base(reader.folder(), base.empty() ? fs::path(recipe.train.init) : base, loaded);
  } else if (!base.empty()) {
    throw Error(
        fmt::format("{} trained {} and holds its complete model, so it takes no base, got {}",
                    reader.folder().string(), name_of(facts.kind), base.string()));
  } else {
    allocate_params(loaded, reader.folder());
  }
  if (facts.merges) read_merged_base(reader, std::move(tensors.frozen), loaded);
  const tensor::Layout layout(std::move(tensors.trained));
  tensor::Arena trained(layout);
  reader.read_weights(trained);
  merge_adapter(trained, recipe.adapter, loaded);
}

}  // namespace thinwire::convert

#include "thinwire/launch/beginning.h"

#include <utility>

#include "thinwire/base/file.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/resume.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/train/initial_model.h"

namespace thinwire::launch {
namespace {

// Throws Error if factors would continue with a base other than the one they were trained on.
void check_base(const checkpoint::CheckpointReader& resume, const config::Recipe& recipe,
                const train::StartingWeights& weights) {
  if (!resume.files().contains(checkpoint::kAdapterBaseFile)) return;
  checkpoint::check_adapter_base(resume.folder(), checkpoint::read_adapter_base(resume.folder()),
                                 recipe.train.init, weights.base_digest);
}

}  // namespace

Beginning find_beginning(const std::string& checkpoint, const tensor::Layout& layout,
                         const data::Vocabulary& vocabulary,
                         const checkpoint::RunSources& sources) {
  Beginning from;
  if (checkpoint.empty()) {
    from.weights = train::starting_weights(sources.recipe, &vocabulary, layout);
    from.run_id = checkpoint::new_run_id(sources, checkpoint::kNumericsVersion);
    return from;
  }
  from.resume = checkpoint::open_newest(checkpoint);
  checkpoint::ResumeFacts facts = checkpoint::check_resume(*from.resume, sources);
  if (method::is_adapted(sources.recipe.adapter)) {
    config::Recipe recipe = sources.recipe;
    recipe.adapter.init.clear();  // the checkpoint has the factors
    from.weights = train::starting_weights(recipe, &vocabulary, layout);
    check_base(*from.resume, sources.recipe, from.weights);
  } else {
    from.weights.trained = std::make_shared<tensor::Arena>(layout, sources.recipe.train.weights,
                                                           train::make_offload(sources.recipe));
  }
  from.resume->read_weights(*from.weights.trained);
  from.run_id = from.resume->meta().run;
  from.first_step = static_cast<int64_t>(from.resume->meta().step);
  from.ended_at = facts.ended_at;
  from.notices = std::move(facts.notices);
  return from;
}

std::map<std::string, std::string> checkpoint_texts(const config::Recipe& recipe,
                                                    const Beginning& from) {
  auto texts = train::origin_files(recipe, from.resume ? from.resume->folder() : fs::path());
  if (from.weights.base_digest != 0) {
    texts[checkpoint::kAdapterBaseFile] =
        checkpoint::print_adapter_base({from.weights.base_digest, recipe.train.init});
  }
  return texts;
}

}  // namespace thinwire::launch

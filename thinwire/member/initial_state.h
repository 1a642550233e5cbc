// What a run of many hosts starts from: its initial weights as snapshot 0, and the founding record,
// which names them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/signature.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/membership/record.h"

namespace thinwire::member {

struct InitialState {
  membership::Founding founding;
  // To be stored as a blob under the coordinator's name before the host starts.
  std::shared_ptr<const Bytes> weights;
};

// The weights are those with which `thinwire train` starts: from train.init, or at random from
// run.seed. `recipe`: resolved; `recipe_hash`: of what members receive; `run`: the run's identity
// (checkpoint::new_run_id); `coordinators`: the keys whose records count, in any order. The same
// arguments give the same bytes, so a coordinator that starts again founds the same run. Throws
// UsageError as check_hosted (member/member.h) and train::set_initial_parameters do.
InitialState make_initial_state(const config::Recipe& recipe, const data::Vocabulary& vocabulary,
                                const Sha256& recipe_hash, uint64_t run,
                                std::vector<PublicKey> coordinators);

}  // namespace thinwire::member

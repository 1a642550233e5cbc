// A snapshot: what a member needs to start in the middle of a run, as bytes: the weights and the
// state on which all replicas agree. docs/formats.md, "Snapshots".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/named_span.h"
#include "thinwire/base/signature.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/membership/record.h"

namespace thinwire::member {

struct RunSnapshot {
  uint64_t run = 0;
  int64_t completed = 0;       // training steps
  std::vector<float> weights;  // as in the parameters' arena (tensor/storage/arena.h)
  std::map<std::string, std::vector<float>> consensus;
};

Bytes encode_snapshot(uint64_t run, int64_t completed, std::span<const float> weights,
                      std::span<const NamedValues> consensus);

// Total: any bytes give a snapshot or kCorruptPayload with a reason. Allocates no more than the
// input's size. All values are finite.
Result<RunSnapshot> decode_snapshot(std::span<const uint8_t> bytes);

// What a run of many hosts starts from: its initial weights as snapshot 0, and the founding record,
// which names them.
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

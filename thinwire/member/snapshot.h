// A snapshot: what a member needs to start in the middle of a run. It is a checkpoint of the state
// on which all replicas agree, in one piece: the same files, one after the other, with every tensor
// in the type in which it is kept. docs/formats.md, "Snapshots".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/named_span.h"
#include "thinwire/base/signature.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/events/progress.h"
#include "thinwire/membership/record.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::member {

// The folder of a run in which the files of a snapshot are while it is made or opened.
inline constexpr const char* kSnapshotFolder = "snapshot";

// Equal states give equal bytes. `folder` holds the files meanwhile: whatever is there is removed,
// and it is gone when this returns. Throws Error if they cannot be written.
Bytes make_snapshot(uint64_t run, int64_t completed, const tensor::Arena& weights,
                    std::span<const NamedValues> consensus, const fs::path& folder);

// As make_snapshot; nothing, after a message that says why, if they cannot be written, as on a full
// disk.
std::optional<Bytes> try_make_snapshot(uint64_t run, int64_t completed,
                                       const tensor::Arena& weights,
                                       std::span<const NamedValues> consensus,
                                       const fs::path& folder,
                                       const std::function<void(const std::string& text)>& message);

// Removes what a process that was killed has left of `folder`.
void remove_abandoned_snapshot(const fs::path& folder);

// Total: any bytes give a checkpoint without local state, or kCorruptPayload with a reason; values
// may be anything. `folder` is used as by make_snapshot; what was opened stays readable. Throws
// Error if the files cannot be written.
Result<std::unique_ptr<checkpoint::CheckpointReader>> open_snapshot(std::span<const uint8_t> bytes,
                                                                    const fs::path& folder);

// What a run of many hosts starts from: its initial weights as snapshot 0, and the founding record,
// which names them.
struct InitialState {
  membership::Founding founding;
  // To be stored as a blob under the coordinator's name before the host starts.
  std::shared_ptr<const Bytes> weights;
  // The digest of the model that an adapter's factors belong to (checkpoint/adapter_base.h); 0:
  // snapshot 0 has everything that a member needs.
  uint64_t base_digest = 0;
};

// The weights are those with which `thinwire train` starts: from train.init, or at random from
// run.seed. `recipe`: resolved; `vocabulary`: null for an external model; `recipe_hash`: of what
// members receive; `run`: the run's identity (checkpoint::new_run_id); `coordinators`: the keys
// whose records count, in any order; `message` is told what the user should know of the weights.
// The same arguments give the same bytes, so a coordinator that starts again founds the same run.
// Throws UsageError as check_hosted (member/member.h) and train::starting_weights do.
InitialState make_initial_state(const config::Recipe& recipe, const data::Vocabulary* vocabulary,
                                const Sha256& recipe_hash, uint64_t run,
                                std::vector<PublicKey> coordinators,
                                const events::MessageSink& message);

}  // namespace thinwire::member

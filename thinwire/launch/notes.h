// What ranks of a job tell each other beside the members' operations (transport/frame.h carries
// it): how the run begins, parts of what it leaves behind, where it stops. docs/formats.md
// describes every byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/best_loss.h"
#include "thinwire/checkpoint/meeting.h"
#include "thinwire/train/collector.h"

namespace thinwire::launch {

// From the leader: what it found out before the others may look at the run folder.
struct StartNote {
  bool finished = false;               // there is nothing to train
  std::string checkpoint;              // to go on from; empty: a new run
  std::vector<std::string> evaluated;  // evaluations at its step that are recorded already
  checkpoint::BestLoss best;           // of the recorded evaluations of eval.watch up to it
};
// To the leader: a worker's parts. Steps count completed ones.
struct StepNote {
  int64_t step = 0;
  int worker = 0;
  train::StepPart part;
};
struct EvaluationNote {
  int64_t step = 0;
  int worker = 0;
  std::string name;
  train::EvalPart part;
};
struct CheckpointNote {
  int64_t step = 0;
  int worker = 0;
  int64_t members = 0;  // as in WorkerState
  std::vector<std::pair<std::string, std::vector<float>>> local;
  std::vector<std::pair<std::string, Bytes>> travelling;

  // Of both; valid as long as the note.
  checkpoint::WorkerState state() const;
};
// To the leader: no parts follow.
struct CompleteNote {};
// To the leader: somebody wants the run to end.
struct StopWishNote {};
// From the leader: which point (train/run_sink.h) is the latest that you may pass? Wait at the
// next.
struct StopAskNote {};
// To the leader: that point.
struct StopAnswerNote {
  int64_t point = 0;
};
// From the leader: the first point that nobody passes.
struct StopAtNote {
  int64_t point = 0;
};
// From the leader: which step is the latest that you may train? Train `margin` more, then wait.
struct CheckpointAskNote {
  int64_t margin = 0;
};
// To the leader: that step.
struct CheckpointAnswerNote {
  int64_t step = 0;
};
// From the leader: the step before which all write a checkpoint.
struct CheckpointAtNote {
  int64_t step = 0;
};

// The alternatives' order is the notes' kind in docs/formats.md.
using Note = std::variant<StartNote, StepNote, EvaluationNote, CheckpointNote, CompleteNote,
                          StopWishNote, StopAskNote, StopAnswerNote, StopAtNote, CheckpointAskNote,
                          CheckpointAnswerNote, CheckpointAtNote>;

Bytes encode_note(const Note& note);
// As encode_note of a CheckpointNote with this state, which is not copied on the way.
Bytes encode_checkpoint_note(int64_t step, int worker, const checkpoint::WorkerState& state);

// Total: any bytes give a note, or kCorruptPayload with a reason. What decodes is encoded to the
// same bytes again.
Result<Note> decode_note(std::span<const uint8_t> bytes);

// Whether it is a worker's part or says that all have come, which are taken in in order; false for
// bytes that are no note.
bool is_part(std::span<const uint8_t> note);

}  // namespace thinwire::launch

// Notes: what the ranks of a job send each other besides the members' operations, in a separate
// kind of frame (transport/frame.h): how the run begins, parts of what it records, where it stops.
// docs/formats.md describes every byte.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/checkpoint_collector.h"
#include "thinwire/train/collector.h"

namespace thinwire::launch {

// From the leader: what it found in the run folder, sent before the others may read the folder.
struct StartNote {
  bool finished = false;               // there is nothing to train
  std::string checkpoint;              // to resume from; empty: a new run
  std::vector<std::string> evaluated;  // evaluations at its step that are already recorded
  checkpoint::BestLoss best;           // of the recorded evaluations of eval.watch up to it
};
// To the leader: one worker's parts. Step numbers count completed steps.
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
// State in the type in which it is kept (NamedValues).
struct StoredState {
  std::string name;
  DType dtype = DType::kU8;
  Bytes bytes;
  bool operator==(const StoredState&) const = default;
};
struct CheckpointNote {
  int64_t step = 0;
  int worker = 0;
  int64_t members = 0;  // as in WorkerState
  std::vector<std::pair<std::string, std::vector<float>>> local;
  std::vector<std::pair<std::string, Bytes>> in_flight;
  // Local state of other types than fp32, which `local` holds.
  std::vector<StoredState> stored = {};

  // Views of the tensors and payloads, valid as long as the note.
  checkpoint::WorkerState state() const;
};
// To the leader: no parts follow.
struct CompleteNote {};
// To the leader: this rank asks for the run to end.
struct StopRequestNote {};
// From the leader: asks for the latest point (train/run_sink.h) that the receiver may pass; it then
// waits at the next one.
struct StopAskNote {};
// To the leader: the answer, that point.
struct StopAnswerNote {
  int64_t point = 0;
};
// From the leader: the first point that nobody may pass.
struct StopAtNote {
  int64_t point = 0;
};
// From the leader: asks for the latest step that the receiver may train; it then trains `margin`
// more steps and waits.
struct CheckpointAskNote {
  int64_t margin = 0;
};
// To the leader: the answer, that step.
struct CheckpointAnswerNote {
  int64_t step = 0;
};
// From the leader: the step before which every rank writes a checkpoint.
struct CheckpointAtNote {
  int64_t step = 0;
};

// The index of an alternative is the note's kind in docs/formats.md.
using Note = std::variant<StartNote, StepNote, EvaluationNote, CheckpointNote, CompleteNote,
                          StopRequestNote, StopAskNote, StopAnswerNote, StopAtNote,
                          CheckpointAskNote, CheckpointAnswerNote, CheckpointAtNote>;

Bytes encode_note(const Note& note);
// The same bytes as encode_note for a CheckpointNote with this state, without copying the state.
Bytes encode_checkpoint_note(int64_t step, int worker, const checkpoint::WorkerState& state);

// Total function: any bytes give a note, or kCorruptPayload with a reason. Encoding a decoded note
// gives the same bytes again.
Result<Note> decode_note(std::span<const uint8_t> bytes);

// Whether it is a worker's part or a CompleteNote, which are processed in order; false for bytes
// that are not a note.
bool is_part(std::span<const uint8_t> note);

}  // namespace thinwire::launch

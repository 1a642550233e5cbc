// One all_reduce as one Rendezvous carries it out. It reads the values of the members that it
// serves ("here"); from the others ("elsewhere") it gets contributions and sums as the codec's
// bytes. Each member owns a chunk (wire_chunk): contributions to it go to where its owner is, are
// summed there piece by piece, and the sum goes to all.
//
// A pure state machine: arrivals create tasks, and tasks form the sum. Not thread-safe, but a task
// that has been taken shares no data with anything else, so any thread may run it meanwhile. Pieces
// are whole blocks of the wire format, so the result does not depend on which thread runs what.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/wire.h"

namespace thinwire::transport {

// The arithmetic of an all_reduce: contributions, encoded and decoded by the codec, are summed in
// fp32 from 0 in member order, and the sum is encoded and decoded as well, by WireCodec::of_sum. Q
// is such a round trip.

// Owns memory for the values between encoding and decoding; one object per thread.
class CodedSum {
 public:
  // sum := 0
  static void begin(std::span<float> sum);
  // sum += Q(values), whole blocks from the first value on.
  Result<void> add(const WireCodec& codec, std::span<const float> values, std::span<float> sum);
  // The same for values that arrive as the codec's bytes; kCorruptPayload if it refuses them.
  Result<void> add_coded(const WireCodec& codec, std::span<const uint8_t> coded,
                         std::span<float> sum);
  // sum := Q(sum)
  Result<void> finish(const WireCodec& codec, std::span<float> sum);
  // The same, also returning the codec's bytes for others.
  static Result<void> finish(const WireCodec& codec, std::span<float> sum,
                             std::span<uint8_t> coded);

 private:
  Bytes bytes_;
  std::vector<float> decoded_;
};

struct SumTask {
  enum class Kind : uint8_t {
    kCode,    // encode a contribution of a member here to the chunk of an owner elsewhere
    kForm,    // sum a piece of the chunk of an owner here
    kDecode,  // decode the sum of an owner elsewhere
  };
  // What one member contributes to it.
  struct Part {
    int member;
    std::span<const float> values;   // from a member here
    std::span<const uint8_t> coded;  // from a member elsewhere
    bool elsewhere;
  };
  Kind kind;
  int owner;
  const WireCodec* codec;
  std::vector<Part> parts;       // ordered by member; only one unless kForm
  std::span<float> sum;          // kForm, kDecode: to be written
  std::span<uint8_t> coded_sum;  // kForm: also to be written; empty: not needed elsewhere
  Bytes contribution;            // kCode: to be written

  // kCorruptPayload, naming the member, if the codec refuses a part.
  Result<void> run(CodedSum& memory);
};

class ChunkedSum {
 public:
  // Called once, before a member here starts: the members that contribute and those of them here,
  // both ascending, and what is summed. alone: nobody elsewhere needs the sum.
  void open(std::span<const int> members, std::vector<int> here, const WireCodec& codec,
            size_t count, bool alone);
  bool opened() const { return codec_ != nullptr; }

  // A member here starts; its values must stay unchanged until the sum is settled and has no
  // readers. Throws Error if length or format are not those of open().
  void start(int member, std::span<const float> values, const WireCodec& codec);
  // Bytes from elsewhere, possibly before open(). Returns false if they had already arrived.
  bool take_contribution(int owner, int from, Bytes coded);
  bool take_sum(int owner, Bytes coded);
  // Only the first failure is kept; there are no tasks afterwards.
  void fail(Failure failure);

  bool has_task() const;
  std::optional<SumTask> take();
  // Reports the result of a task. Returns true for the last piece of its owner's chunk; see
  // coded().
  bool finish(const SumTask& task, const Result<void>& result);

  bool done() const;
  const std::optional<Failure>& failure() const { return failure_; }
  bool settled() const { return done() || failure_; }
  // Number of tasks being run.
  int readers() const { return readers_; }
  // Whether the member contributes.
  bool has(int member) const;
  // Whether the sum still needs something from the member.
  bool needs(int member) const;
  // The members that are waited for: those that have not contributed to a chunk of an owner here,
  // or, where all have, those elsewhere whose chunks have not arrived.
  std::vector<int> awaited() const;
  // Whether the owner here has formed its chunk.
  bool formed(int owner) const;
  // The sum of the chunk of an owner here as the codec's bytes, once it is formed.
  const Bytes& coded(int owner) const { return chunks_.at(owner).coded; }
  // The sum, once done.
  std::span<const float> sum() const { return sum_; }

 private:
  struct Chunk {  // of an owner here
    WireChunk range;
    size_t pieces = 0;
    size_t taken = 0;
    size_t formed = 0;
    Bytes coded;  // empty if nobody is elsewhere
  };

  bool is_here(int member) const;
  int place(int member) const;
  bool all_contributed() const;
  WireChunk range_of(int owner) const;
  SumTask encoding_task();
  SumTask forming_task(int owner, Chunk& chunk);
  SumTask decoding_task();

  std::vector<int> members_;
  std::vector<int> here_;
  const WireCodec* codec_ = nullptr;
  std::map<int, std::span<const float>> values_;        // of members here
  std::map<std::pair<int, int>, Bytes> contributions_;  // from elsewhere, by owner and sender
  std::map<int, Bytes> sums_;                           // from elsewhere, by owner
  std::map<int, Chunk> chunks_;                         // by owner
  std::deque<std::pair<int, int>> to_code_;             // member, owner
  std::deque<int> to_decode_;                           // owners
  size_t decoded_ = 0;
  int readers_ = 0;
  std::optional<Failure> failure_;
  std::vector<float> sum_;
};

}  // namespace thinwire::transport

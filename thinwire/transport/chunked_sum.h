// One all_reduce as a place of the run forms it. A place reads the values of the members it serves
// ("here"); of the others it gets contributions and sums as the codec's bytes. Each member owns a
// chunk (wire_chunk): contributions to it meet where its owner is, are summed there piece by piece,
// and the sum goes to all.
//
// A pure state machine: what arrives makes tasks, tasks make the sum. Not thread-safe, but a task
// that was taken touches nothing that anybody else does, so any thread may run it meanwhile. Pieces
// are whole blocks of the wire format, so who runs what leaves no trace.
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
#include "thinwire/transport/coded_sum.h"

namespace thinwire::transport {

struct SumTask {
  enum class Kind : uint8_t {
    kCode,    // the contribution of a member here to the chunk of an owner elsewhere
    kForm,    // a piece of the chunk of an owner here
    kDecode,  // the sum of an owner elsewhere
  };
  // What one member brings to it.
  struct Part {
    int member;
    std::span<const float> values;   // of a member here
    std::span<const uint8_t> coded;  // else
    bool elsewhere;
  };
  Kind kind;
  int owner;
  const WireCodec* codec;
  std::vector<Part> parts;       // ordered by member; one but for kForm
  std::span<float> sum;          // kForm, kDecode: to be written
  std::span<uint8_t> coded_sum;  // kForm: to be written too, where others need it
  Bytes contribution;            // kCode: to be written

  // kCorruptPayload when the codec refuses a part; says whose.
  Result<void> run(CodedSum& memory);
};

class ChunkedSum {
 public:
  // Once, before a member here starts it: the members that contribute, those of them here, both
  // ascending, and what is summed. alone: nobody elsewhere needs the sum.
  void open(std::span<const int> members, std::vector<int> here, const WireCodec& codec,
            size_t count, bool alone);
  bool opened() const { return codec_ != nullptr; }

  // A member here starts; its values stay as they are until the sum is settled and has no readers.
  // Throws Error when length or format are not those of open().
  void start(int member, std::span<const float> values, const WireCodec& codec);
  // Bytes from elsewhere, also before open(). False where they had come before.
  bool take_contribution(int owner, int from, Bytes coded);
  bool take_sum(int owner, Bytes coded);
  // The first failure stays; there are no tasks afterwards.
  void fail(Failure failure);

  bool has_task() const;
  std::optional<SumTask> take();
  // What became of a task. True: the last piece of its owner's chunk, see coded().
  bool finish(const SumTask& task, const Result<void>& result);

  bool done() const;
  const std::optional<Failure>& failure() const { return failure_; }
  bool settled() const { return done() || failure_; }
  // Tasks being run.
  int readers() const { return readers_; }
  // Whether the member contributes.
  bool has(int member) const;
  // Whether there can be no sum without what the member has still to do.
  bool needs(int member) const;
  // Whether the owner here has formed its chunk.
  bool formed(int owner) const;
  // The sum of the chunk of an owner here as the codec's bytes; once it is formed.
  const Bytes& coded(int owner) const { return chunks_.at(owner).coded; }
  // The sum, once done.
  std::span<const float> sum() const { return sum_; }

 private:
  struct Chunk {  // of an owner here
    WireChunk range;
    size_t pieces = 0;
    size_t taken = 0;
    size_t formed = 0;
    Bytes coded;  // empty where nobody is elsewhere
  };

  bool is_here(int member) const;
  int place(int member) const;
  bool all_contributed() const;
  WireChunk range_of(int owner) const;
  SumTask coding_task();
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

// How the records of a token set become rows. A row has sequence + 1 tokens, as in rows.h, and
// holds whole records, one after the other, then padding (token 0). The loss of a prediction counts
// if its target is a token to learn; the first token of a record is never a target, because what
// comes before it is another record.
//
// With packing, a row takes the next records in the set's order for as long as they fit; without, a
// row is one record. Records longer than a row are truncated or skipped, as asked; so are records
// without any token to learn, also if truncation removed them.
//
// Pairs are placed like single records, so a row holds both answers of a pair or none: the chosen
// one and, behind it, the rejected one, each with its prompt. If they are longer than a row
// together and are to be truncated, the longer one is first, down to half a row, then both.
//
// A text with a class, or a number, keeps its last tokens, its end and the class, when it is
// truncated. The class lies in the row behind the token that predicts it, and there it begins a
// document, so that an encoder, which sees whole documents, does not see it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/config/sections.h"
#include "thinwire/data/shard.h"

namespace thinwire::data {

struct RecordOptions {
  bool packing = false;
  config::LongRecords too_long = config::LongRecords::kError;
};

class RecordPlan {
 public:
  // Throws Error for a set without usable records and, with LongRecords::kError, for a record
  // that is too long. `tokens` must outlive this.
  RecordPlan(const TokenSet& tokens, int64_t sequence, const RecordOptions& options);

  uint64_t rows() const { return begins_.size() - 1; }
  // Tokens of the records in all rows, without the padding behind them.
  uint64_t tokens() const { return tokens_placed_; }
  // Reads row `place`: its sequence + 1 tokens, and of each of its sequence predictions the weight,
  // 1 or 0, and, unless `begins` is empty, whether a record or the padding begins there.
  // Thread-safe.
  void read(uint64_t place, std::span<int32_t> tokens, std::span<float> weights,
            std::span<uint8_t> begins = {}) const;
  // Predictions of row `place` that count, or of pairs the pairs; at least 1.
  int64_t counted(uint64_t place) const {
    return pairs() ? static_cast<int64_t>(pairs_of(place).count) : counted_[place];
  }
  bool pairs() const { return unit_ == 2; }
  // Whether records are texts with a class or a number.
  bool labelled() const {
    return tokens_->kind() == ShardKind::kClasses || tokens_->kind() == ShardKind::kNumbers;
  }
  // The pairs of row `place`, as they are numbered in the plan. Each has two documents in the row
  // (`begins` of read()), one after the other.
  struct PairRange {
    uint64_t first = 0;
    uint64_t count = 0;
  };
  PairRange pairs_of(uint64_t place) const {
    return {begins_[place] / 2, (begins_[place + 1] - begins_[place]) / 2};
  }
  // "812 records in 240 rows, 31000 of 58200 tokens learnt; 3 longer than a row skipped"; of pairs
  // "406 pairs in ..."
  std::string description() const;

 private:
  struct Placed {
    uint64_t first;   // token of the set
    uint32_t length;  // tokens, after truncation
    uint32_t whole;   // and before
  };

  // A record or pair of the set with `tokens` tokens in all.
  struct Group {
    std::span<const uint32_t> lengths;
    uint64_t tokens = 0;
  };
  // Places as much of a group as is to be kept; its first token is `first` of the shard, and
  // `shard_begin` + `first` of the set.
  void add(const ShardReader& shard, uint64_t shard_begin, uint64_t first, const Group& group,
           const RecordOptions& options);
  void place(std::span<const Placed> group, int64_t learnt, const RecordOptions& options);
  void refuse_long(uint64_t longest) const;
  // The tokens of a record that are kept.
  void read_record(const Placed& record, std::span<int32_t> tokens) const;

  const TokenSet* tokens_;
  size_t unit_;     // records that belong together: 2 of a pair, else 1
  uint64_t width_;  // tokens of a row
  std::vector<Placed> records_;
  std::vector<uint64_t> begins_;  // the first record of each row, then the number of records
  std::vector<int64_t> counted_;  // of each row
  uint64_t filled_ = 0;           // tokens of the last row
  uint64_t tokens_placed_ = 0;    // and of all rows
  uint64_t long_ = 0;             // records or pairs longer than a row
  bool truncates_;
  size_t target_;       // tokens of a class or number
  uint64_t empty_ = 0;  // records without a token to learn, and pairs with such an answer
};

}  // namespace thinwire::data

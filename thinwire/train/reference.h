// The log-likelihoods of pairs of answers with the model that training starts from, against which
// preferences are learnt (pair_loss.h). They depend on that model and the data only, so they are
// computed once, before training, and kept in the run folder: resumed runs read the same bits, and
// there is never a second model in memory.
//
// reference/<set>.pairs, little-endian (docs/formats.md): magic "TWPAIRS1" · u64 key of the data ·
// u64 digest of the model · u64 pairs · f64 chosen and f64 rejected of each pair, in nats · XXH3-64
// of all bytes before.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/rows.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/corpus.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/pair_loss.h"

namespace thinwire::train {

// The rows of a set that a run uses, in the order in which their pairs are computed and stored.
struct UsedRows {
  const data::Rows* rows;
  uint64_t count = 0;
  uint64_t spread = 0;  // row i of them is row i * spread / count of the set
  uint64_t key = 0;     // of the set and all that decides which rows these are, but for `count`

  uint64_t index(uint64_t i) const { return i * spread / count; }
};

// What is known of a set: the pairs of its first rows in use.
struct KnownPairs {
  uint64_t model = 0;  // digest of the model
  std::vector<PairLikelihoods> pairs;
};

// Nullopt if there is no file or one of other data. A damaged file is removed, with a message.
std::optional<KnownPairs> read_known_pairs(const fs::path& file, uint64_t key,
                                           const events::MessageSink& message);
void write_known_pairs(const fs::path& file, uint64_t key, const KnownPairs& known);

// The reference for all sets of a run. Thread-safe once complete.
class Reference {
 public:
  // The pairs, all of them, of the rows in use of a set.
  void add(const std::string& set, const UsedRows& used, std::span<const PairLikelihoods> pairs);

  // The pairs of these rows, one after the other. Throws Error for a row that is not in use.
  std::vector<PairLikelihoods> of(const std::string& set, const data::Rows& rows,
                                  std::span<const uint64_t> indices) const;

 private:
  std::map<std::string, std::vector<PairLikelihoods>> sets_;  // by number in the plan; NaN: unknown
};

// Computes what a run lacks of its reference.
struct ReferenceParts {
  const config::Recipe& recipe;
  const Corpus& corpus;
  const tensor::Layout& layout;  // of what is trained
  fs::path folder;               // where the files are; they need not be there
  bool writes = true;            // whether this process keeps them
  bool resumes = false;          // the run has trained: what is known belongs to it
  int threads = 1;
  // The weights that training starts from: those of a new run, which are only read, or those from
  // which a resumed one began, read again.
  std::function<StartingWeights()> start;
  events::MessageSink message;
};

// Null unless the corpus has pairs. Reads the files; what they lack is computed with the model at
// the start and written, also from time to time meanwhile. Messages say how far it is. Throws Error
// if a resumed run lacks some and train.init no longer holds the weights that it began with.
std::shared_ptr<const Reference> make_reference(const ReferenceParts& parts);

}  // namespace thinwire::train

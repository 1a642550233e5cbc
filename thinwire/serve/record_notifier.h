// Reports the records of a ledger as they are applied, and which of them precede this coordinator's
// first decision.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/membership/record.h"

namespace thinwire::serve {

// Not thread-safe.
class RecordNotifier {
 public:
  using Hook = std::function<void(const membership::Record& record, bool earlier)>;

  // `hook`: may be empty; then nothing is kept.
  explicit RecordNotifier(Hook hook) : hook_(std::move(hook)) {}

  void read(const membership::Record& record) {
    if (hook_) unapplied_.push_back(record);
  }
  // This coordinator appends a record after `last`. All records up to the first such `last` count
  // as earlier.
  void decides(uint64_t last) {
    if (!decided_after_) decided_after_ = last;
  }
  // The ledger's records after `before` and up to `applied` were applied.
  void notify(uint64_t before, uint64_t applied) {
    for (const membership::Record& record : unapplied_) {
      if (record.sequence <= before || record.sequence > applied) continue;
      hook_(record, !decided_after_ || record.sequence <= *decided_after_);
    }
    std::erase_if(unapplied_, [&](const auto& record) { return record.sequence <= applied; });
  }

 private:
  const Hook hook_;
  std::vector<membership::Record> unapplied_;
  std::optional<uint64_t> decided_after_;  // the newest record when it first decided something
};

}  // namespace thinwire::serve

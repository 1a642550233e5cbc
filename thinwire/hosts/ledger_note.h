// Notes in the folder of a served run how far its ledger has come. If the store is found empty or
// shorter, it has vanished or is an older copy, and the run is not continued from there
// (serve::HostOptions::remembered).
#pragma once

#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/membership/state.h"

namespace thinwire::hosts {

class LedgerNote {
 public:
  // A power cut may cost a store what it had not synced: nats-server syncs every two minutes. So a
  // record is written down once it has been stored for this long; the first one at once.
  static constexpr double kLastingSeconds = 180;

  // Throws Error if the note in `server_folder` is damaged.
  explicit LedgerNote(const fs::path& server_folder);

  // As found; sequence 0 if there was none.
  const membership::Position& remembered() const { return remembered_; }
  // The ledger's last record. Any thread.
  void reached(const membership::Position& position);
  // Writes it down when it is time. Called by one thread, several times a second; `now`: seconds of
  // any clock.
  void keep(double now);
  // Writes it down now: the store ends in an orderly way, which syncs it.
  void keep_last();

 private:
  void write(const membership::Position& position);

  const fs::path file_;
  membership::Position remembered_;
  membership::Position written_;
  membership::Position waiting_;  // to be written down at due_
  double due_ = 0;
  Mutex mutex_;
  membership::Position reached_ GUARDED_BY(mutex_);
};

}  // namespace thinwire::hosts

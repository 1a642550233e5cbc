// Keeps the key ring of a run that may have several coordinators the same in the folders of all of
// them: each appends what is new in its ring to the stream kKeysStream, signed by the key that they
// share, and adds what others have appended to its own. docs/formats.md, "Folder of a run that is
// served".
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/signature.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {

// Secrets on disk: in a folder that only its owner may read.

// Creates the folder if there is none, and gives access to its owner only.
void make_private_folder(const fs::path& folder);

// The secret in `file`, which is in a private folder, as the text of an NKey seed. Throws Error if
// the file is missing or holds something else.
Seed load_seed(const fs::path& file, NKeyKind kind = NKeyKind::kUser);
void store_seed(const fs::path& file, const Seed& seed, NKeyKind kind = NKeyKind::kUser);
// Like load_seed, but creates and stores a seed if the file is missing.
Seed load_or_make_seed(const fs::path& file, NKeyKind kind = NKeyKind::kUser);

inline constexpr const char* kKeysStream = "keys";

Bytes encode_shared_keys(const KeyRing& news, const Signer& coordinators);
// Total. kCorruptPayload unless `coordinators` signed it.
Result<KeyRing> decode_shared_keys(std::span<const uint8_t> bytes, const PublicKey& coordinators);

// Used by one thread.
class SharedKeys {
 public:
  // Both references must outlive it.
  SharedKeys(transport::Courier& courier, const Signer& coordinators, fs::path run_folder);

  // Merges what has arrived, and appends what is new in the folder; true: nothing is. To be called
  // several times a second; it does not block.
  bool serve_pending();

 private:
  // Filled by the courier's thread, perhaps after this object is destroyed.
  struct Inbox {
    Mutex mutex;
    std::deque<std::pair<uint64_t, Bytes>> records GUARDED_BY(mutex);  // with their sequences
    bool appending GUARDED_BY(mutex) = false;
  };

  void take_in();
  bool append_news();

  transport::Courier& courier_;
  const Signer& coordinators_;
  const fs::path run_folder_;
  uint64_t stamp_ = 0;
  KeyRing own_;     // the folder's
  KeyRing shared_;  // the stream's
  uint64_t last_ = 0;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::unique_ptr<transport::Subscription> reading_;
};

}  // namespace thinwire::hosts

// Reaching a run through the folder of its mailbox.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/access.h"
#include "thinwire/hosts/self_check.h"
#include "thinwire/transport/mailbox/courier_mailbox.h"

namespace thinwire::hosts {
namespace {

constexpr const char* kEnrolledFile = "enrolled";  // the run's name
constexpr std::chrono::milliseconds kLookInterval(500);

// Whether the folder has something besides runs and hidden files.
bool holds_other_files(const fs::path& folder) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && !decode_public_key(NKeyKind::kUser, name).has_value()) {
      return true;
    }
  }
  return false;
}

class MailboxApproach final : public Approach {
 public:
  std::unique_ptr<transport::Courier> connect(Access& access, const Identity& as) const override {
    await_mailbox(access);
    // Several machines have the token, and each needs a folder of its own.
    const bool newcomer = as.seed == access.newcomer.seed;
    const PublicKey key = make_signer(newcomer ? make_seed() : as.seed)->key();
    return open_mailbox(access.address(), access.founder, participant_name(key), newcomer,
                        access.message);
  }

  std::unique_ptr<transport::Courier> try_connect(Access& access,
                                                  const Identity& as) const override {
    return connect(access, as);
  }

  // Whether the key was enrolled before is known to the member's folder alone, because nobody
  // answers at once.
  std::unique_ptr<transport::Courier> admit(Access& access,
                                            const Applicant& applicant) const override {
    await_mailbox(access);  // before anything is written
    auto courier = connect(access, applicant.identify());
    const fs::path enrolled = applicant.folder / kEnrolledFile;
    if (fs::exists(enrolled) && read_text_file(enrolled) == access.run) return courier;
    access.message("waits for the coordinator to admit this machine");
    (void)applicant.enrol(*courier);
    write_file(enrolled, access.run);
    return courier;
  }

  WaitLimits patience(const Access& access) const override {
    return {std::max(access.wait_s, kTimeoutSeconds), kMailboxArrivalSeconds, 0, access.message};
  }

  void check_folder(const Access& access, const fs::path& run_folder) const override {
    check_outside_mailbox(run_folder, access.address());
  }

  void check_fetch(config::FetchData fetch) const override {
    if (fetch == config::FetchData::kAll) return;
    throw UsageError(
        "[data] fetch must be \"all\" with a mailbox, got \"needed\": each answer would wait for "
        "what copies its folder");
  }

  void check_limits(const links::Link& limits) const override {
    if (limits.up_bit_s == 0 && limits.down_bit_s == 0) return;
    throw UsageError(
        "--up and --down need a run with a server: what copies the folder of a mailbox has limits "
        "of its own");
  }

  void check_relay() const override {
    throw UsageError(
        "address: the token is for a run with a mailbox, whose folder is at every site already; a "
        "relay is for runs with servers");
  }

  std::optional<LinkReport> measure(
      const Access& /*access*/, transport::Courier& /*courier*/, RequestClient& /*requests*/,
      const std::optional<transport::BlobId>& /*stored*/) const override {
    return std::nullopt;
  }
};

}  // namespace

const Approach& through_mailbox() {
  static const MailboxApproach approach;
  return approach;
}

void check_outside_mailbox(const fs::path& run_folder, const fs::path& mailbox) {
  const fs::path within = fs::weakly_canonical(run_folder);
  const fs::path whole = fs::weakly_canonical(mailbox);
  if (std::ranges::mismatch(whole, within).in1 != whole.end()) return;
  throw UsageError(
      fmt::format("[run] dir must lie outside the mailbox {}, which others read, because it holds "
                  "secret keys, got {}",
                  mailbox.string(), run_folder.string()));
}

void check_served_mailbox(const fs::path& run_folder, const fs::path& mailbox) {
  std::error_code unreadable;
  if (fs::is_directory(mailbox, unreadable)) return check_outside_mailbox(run_folder, mailbox);
  throw UsageError(fmt::format("--mailbox: {} is not a folder; create it, or mount what it is on",
                               mailbox.string()));
}

void await_mailbox(const Access& access) {
  const Stopwatch watch;
  // What the coordinator writes arrives whenever it is synchronised.
  const fs::path coordinator = fs::path(access.address()) / access.run / access.run;
  std::error_code unreadable;
  for (bool waits = false; !fs::is_directory(coordinator, unreadable); waits = true) {
    if (holds_other_files(access.address())) {
      throw UsageError(
          fmt::format("address: {} holds other files and not the token's run; give the "
                      "folder that is synchronised with the run's mailbox",
                      access.address()));
    }
    constexpr const char* kQuestion = "is this the folder that is synchronised with the mailbox?";
    if (watch.seconds() >= access.wait_s) {
      throw Unreachable(
          fmt::format("the token's run is not in {}; {}", access.address(), kQuestion));
    }
    if (!waits) {
      access.message(fmt::format("the token's run is not in {} yet; waits for it, up to {} ({})",
                                 access.address(), format_seconds(access.wait_s), kQuestion));
    }
    std::this_thread::sleep_for(kLookInterval);
  }
}

std::unique_ptr<transport::Courier> open_mailbox(
    const fs::path& folder, const PublicKey& founder, const std::string& self, bool leaves_nothing,
    std::function<void(const std::string& sentence)> notice) {
  const std::string run = participant_name(founder);
  auto courier = transport::open_mailbox_courier({.folder = folder,
                                                  .run = run,
                                                  .self = self,
                                                  .coordinator = run,
                                                  .timeout_s = kTimeoutSeconds,
                                                  .max_blob_bytes = kMaxBlobBytes,
                                                  .leaves_nothing = leaves_nothing,
                                                  .notice = std::move(notice)});
  if (courier) return std::move(*courier);
  throw UsageError(
      fmt::format("the mailbox {} cannot be used: {}", folder.string(), courier.error().message));
}

}  // namespace thinwire::hosts

// Mailboxes for tests: one folder for all, or two that a thread synchronises.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "courier_contract.h"
#include "thinwire/base/file.h"
#include "thinwire/transport/mailbox/courier_mailbox.h"

namespace thinwire::transport {

inline constexpr double kMailboxPatience = 60;  // seconds; only what hangs takes that long

// An empty folder that goes away with the object.
class MailboxFolder {
 public:
  MailboxFolder();
  ~MailboxFolder();
  MailboxFolder(const MailboxFolder&) = delete;
  MailboxFolder& operator=(const MailboxFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Quick looks into a folder of the run "run", whose coordinator is called here.
MailboxOptions mailbox_options(const fs::path& folder, const std::string& self);

class MailboxWorld final : public CourierWorld {
 public:
  std::unique_ptr<Courier> connect(const std::string& name) override;
  bool has_one_coordinator() const override { return true; }
  bool wait(MailBase& mail, size_t count) override { return mail.wait(count, kMailboxPatience); }

  MailboxOptions options(const std::string& self) const {
    return mailbox_options(folder_.path(), self);
  }
  // Where the files of a participant are.
  fs::path files_of(const std::string& name) const { return folder_.path() / "run" / name; }

 private:
  MailboxFolder folder_;
};

// "here" has one folder, all others the other. What somebody wrote in one of them appears in the
// other some time later, and what was removed disappears.
class SynchronisedWorld final : public CourierWorld {
 public:
  enum class Copying : uint8_t {
    kRenamed,  // under another name, then renamed, as good synchronisers do
    kInPlace,  // half of a file first, under its own name
  };
  explicit SynchronisedWorld(Copying copying);
  ~SynchronisedWorld() override;
  SynchronisedWorld(const SynchronisedWorld&) = delete;
  SynchronisedWorld& operator=(const SynchronisedWorld&) = delete;

  std::unique_ptr<Courier> connect(const std::string& name) override;
  bool has_one_coordinator() const override { return true; }
  void spread() override;
  bool wait(MailBase& mail, size_t count) override { return mail.wait(count, kMailboxPatience); }
  MailboxOptions options(const std::string& self) const;

 private:
  void synchronise();
  void mirror_all() const;
  void mirror(const fs::path& from, const fs::path& to) const;
  void copy(const fs::path& from, const fs::path& to) const;

  const Copying copying_;
  MailboxFolder near_, far_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  uint64_t rounds_ = 0;  // that the synchroniser has completed
  std::thread thread_;
};

}  // namespace thinwire::transport

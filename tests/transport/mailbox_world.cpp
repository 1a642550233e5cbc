#include "mailbox_world.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <fstream>
#include <iterator>

namespace thinwire::transport {
namespace {

constexpr std::chrono::milliseconds kLag(10);  // between two rounds of the synchroniser

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void put_content(const fs::path& file, std::string_view content) {
  std::ofstream(file, std::ios::binary) << content;
}

}  // namespace

MailboxFolder::MailboxFolder() {
  std::string name = testing::TempDir() + "mailbox_XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw Error("cannot make " + name);
  path_ = name;
}

MailboxFolder::~MailboxFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

MailboxOptions mailbox_options(const fs::path& folder, const std::string& self) {
  return {.folder = folder,
          .run = "run",
          .self = self,
          .coordinator = "here",
          .poll_s = 0.01,
          .settle_s = 0.2};
}

std::unique_ptr<Courier> MailboxWorld::connect(const std::string& name) {
  auto courier = open_mailbox_courier(options(name));
  if (!courier) throw Error(courier.error().message);
  return std::move(*courier);
}

SynchronisedWorld::SynchronisedWorld(Copying copying)
    : copying_(copying), thread_([this] { synchronise(); }) {}

SynchronisedWorld::~SynchronisedWorld() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

MailboxOptions SynchronisedWorld::options(const std::string& self) const {
  return mailbox_options(self == "here" ? near_.path() : far_.path(), self);
}

std::unique_ptr<Courier> SynchronisedWorld::connect(const std::string& name) {
  auto courier = open_mailbox_courier(options(name));
  if (!courier) throw Error(courier.error().message);
  return std::move(*courier);
}

// The round that is under way may have passed a file already; copying in place takes two rounds.
void SynchronisedWorld::spread() {
  std::unique_lock lock(mutex_);
  const uint64_t last = rounds_ + 3;
  changed_.wait(lock, [&] { return rounds_ >= last; });
}

void SynchronisedWorld::synchronise() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLag, [this] { return ended_; })) {
    lock.unlock();
    mirror_all();
    lock.lock();
    ++rounds_;
    changed_.notify_all();
  }
}

void SynchronisedWorld::mirror_all() const {
  for (const auto& [from, to] :
       {std::pair(near_.path(), far_.path()), std::pair(far_.path(), near_.path())}) {
    std::error_code none_yet;
    for (const auto& one : fs::directory_iterator(from / "run", none_yet)) {
      const bool here = one.path().filename() == "here";
      if (here != (from == near_.path())) continue;
      mirror(one.path(), to / "run" / one.path().filename());
    }
  }
}

// Files may go while they are copied.
void SynchronisedWorld::mirror(const fs::path& from, const fs::path& to) const {
  std::error_code gone;
  fs::create_directories(to, gone);
  std::map<std::string, bool> names;  // in order; whether it is a folder
  for (const auto& one : fs::directory_iterator(from, gone)) {
    names.emplace(one.path().filename(), one.is_directory(gone));
  }
  for (const auto& one : fs::directory_iterator(to, gone)) {
    if (!names.contains(one.path().filename())) fs::remove_all(one.path(), gone);
  }
  for (const auto& [name, is_folder] : names) {
    is_folder ? mirror(from / name, to / name) : copy(from / name, to / name);
  }
}

void SynchronisedWorld::copy(const fs::path& from, const fs::path& to) const {
  std::error_code gone;
  const bool begun = fs::exists(to, gone);
  if (begun && fs::file_size(from, gone) == fs::file_size(to, gone)) return;
  const std::string content = content_of(from);
  if (copying_ == Copying::kInPlace) {
    return put_content(to,
                       begun ? content : std::string_view(content).substr(0, content.size() / 2));
  }
  const fs::path temporary = to.parent_path() / (".syncthing." + to.filename().string() + ".tmp");
  put_content(temporary, content);
  fs::rename(temporary, to, gone);
}

}  // namespace thinwire::transport

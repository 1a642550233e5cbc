#include "thinwire/base/offload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/units.h"

namespace thinwire {
namespace {

constexpr int kMostAhead = 16;         // parts that are read ahead
constexpr size_t kShareReadAhead = 3;  // of the window: a third
constexpr int kPopulateRead = 22;      // MADV_POPULATE_READ and _WRITE, since Linux 5.14
constexpr int kPopulateWrite = 23;

// Which Offload has an address.
struct Registry {
  Mutex mutex;
  // begin: end and owner
  std::map<const uint8_t*, std::pair<const uint8_t*, Offload*>> ranges GUARDED_BY(mutex);
  std::atomic<size_t> count = 0;
};

Registry& registry() {
  static Registry all;
  return all;
}

Offload* owner_of(const void* data) {
  Registry& all = registry();
  if (all.count.load(std::memory_order_acquire) == 0) return nullptr;
  const auto* const address = static_cast<const uint8_t*>(data);
  const Lock lock(all.mutex);
  auto after = all.ranges.upper_bound(address);
  if (after == all.ranges.begin()) return nullptr;
  const auto& [end, owner] = std::prev(after)->second;
  return address < end ? owner : nullptr;
}

void print_error(std::string_view text) {
  // Nothing can be done about text that cannot be printed.
  [[maybe_unused]] const auto printed = ::write(STDERR_FILENO, text.data(), text.size());
}

// Reading a page of a mapped file that the disk no longer delivers raises SIGBUS, in whichever
// thread reads it. In an array of an Offload that ends the process with an error; elsewhere the
// signal does what it did before. While another thread has the registry, the access is repeated.
void explain_bus_error(int signal, siginfo_t* info, void*) {
  Registry& all = registry();
  if (!all.mutex.try_lock()) return;
  const auto* const address = static_cast<const uint8_t*>(info->si_addr);
  const auto after = all.ranges.upper_bound(address);
  const bool ours = after != all.ranges.begin() && address < std::prev(after)->second.first;
  all.mutex.unlock();
  if (!ours) {
    ::signal(signal, SIG_DFL);
    return;  // the access is repeated
  }
  print_error(
      "thinwire: cannot read back weights or optimizer state that train.offload keeps in files: "
      "the disk failed; the run resumes from its last checkpoint\n");
  ::_exit(1);
}

void explain_bus_errors() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = explain_bus_error;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGBUS, &action, nullptr) == 0;
  }();
  static_cast<void>(once);
}

size_t page_size() {
  static const auto size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// The beginning of the page that the address is in.
uint8_t* page_of(const uint8_t* address) {
  // An array may be handed in as const, but is memory of this file's making.
  auto* const writable = const_cast<uint8_t*>(address);
  return writable - reinterpret_cast<uintptr_t>(address) % page_size();
}

std::string reason(int error) { return std::generic_category().message(error); }

int open_nameless(const fs::path& folder) {
  std::string name = (folder / "offload-XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) {
    throw Error(fmt::format("cannot write into {}: {}", folder.string(), reason(errno)));
  }
  ::unlink(name.c_str());
  return file;
}

std::string free_space(const fs::path& folder) {
  const std::optional<uint64_t> bytes = free_disk_bytes(folder);
  return bytes ? format_bytes(static_cast<double>(*bytes)) : "an unknown part";
}

}  // namespace

Offload::Offload(fs::path folder, size_t window)
    : folder_(std::move(folder)), window_(window), thread_([this] { run(); }) {}

Offload::~Offload() {
  {
    const Lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void* Offload::allocate(size_t bytes) {
  const size_t whole = (bytes + page_size() - 1) / page_size() * page_size();
  explain_bus_errors();
  const int file = open_nameless(folder_);
  // Reserved now, because a mapping without space behind it ends the process when it is written.
  if (const int error = ::posix_fallocate(file, 0, static_cast<off_t>(whole)); error != 0) {
    ::close(file);
    throw Error(fmt::format("cannot reserve {} in {}, where {} are free: {}",
                            format_bytes(static_cast<double>(whole)), folder_.string(),
                            free_space(folder_), reason(error)));
  }
  void* const data = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(file);
    throw Error(fmt::format("cannot map {} of {}: {}", format_bytes(static_cast<double>(whole)),
                            folder_.string(), reason(error)));
  }
  auto* const begin = static_cast<Address>(data);
  {
    const Lock lock(mutex_);
    mappings_[begin] = {whole, file};
  }
  Registry& all = registry();
  const Lock lock(all.mutex);
  all.ranges[begin] = {begin + whole, this};
  ++all.count;
  return data;
}

void Offload::deallocate(void* data) {
  auto* const begin = static_cast<Address>(data);
  {
    Registry& all = registry();
    const Lock lock(all.mutex);
    all.ranges.erase(begin);
    --all.count;
  }
  const Lock lock(mutex_);
  const auto found = mappings_.find(begin);
  const Range whole = {begin, begin + found->second.bytes};
  for (auto at = index_.lower_bound({begin, nullptr}); at != index_.end() && at->first < whole;) {
    Part& part = parts_[at->second];
    if (part.resident) traffic_.resident -= size(part.range);
    part = {};
    at = index_.erase(at);
  }
  std::erase_if(unwritten_, [&](const Range& range) {
    return range.first >= whole.first && range.second <= whole.second;
  });
  ::munmap(data, found->second.bytes);
  ::close(found->second.file);
  mappings_.erase(found);
}

void Offload::touch(const void* data, size_t bytes, bool writes) {
  if (bytes == 0) return;
  const auto* const first = static_cast<const uint8_t*>(data);
  const Range range = {page_of(first), page_of(first + bytes + page_size() - 1)};
  {
    const Lock lock(mutex_);
    const size_t index = part_of(range);
    const bool again = index == last_ && parts_[index].resident;
    if (again && (!writes || parts_[index].dirty)) return;
    if (!again) learn(index, writes);
    Part& part = parts_[index];
    part.last_use = ++clock_;
    moved_ = true;
    const bool foreseen = part.resident;
    ++(foreseen ? traffic_.foreseen : traffic_.missed);
    if (!foreseen) {
      make_room(size(range), index);
      make_resident(part, writes);
    }
    part.dirty |= writes;
    if (foreseen) {
      changed_.notify_one();
      return;
    }
  }
  changed_.notify_one();
  const int advice = writes ? kPopulateWrite : kPopulateRead;
  if (::madvise(range.first, size(range), advice) == 0) return;
  if (errno != EFAULT && errno != EIO) return;  // such as a kernel that does not know the advice
  throw Error(fmt::format("cannot read back {} that were kept in {}: {}",
                          format_bytes(static_cast<double>(bytes)), folder_.string(),
                          reason(errno)));
}

size_t Offload::part_of(const Range& range) {
  const auto [at, is_new] = index_.try_emplace(range, parts_.size());
  if (is_new) parts_.push_back({range});
  return at->second;
}

void Offload::learn(size_t part, bool writes) {
  if (last_ != kNone && before_last_ != kNone) next_[{before_last_, last_}] = {part, writes};
  before_last_ = std::exchange(last_, part);
}

bool Offload::make_room(size_t bytes, size_t kept) {
  while (traffic_.resident > 0 && traffic_.resident + bytes > window_) {
    Part* oldest = nullptr;
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].resident || i == kept || i == last_ || i == before_last_) continue;
      if (oldest == nullptr || parts_[i].last_use < oldest->last_use) oldest = &parts_[i];
    }
    if (oldest == nullptr) return false;
    drop(*oldest);
  }
  return traffic_.resident + bytes <= window_;
}

void Offload::drop(Part& part) {
  ::madvise(part.range.first, size(part.range), MADV_DONTNEED);
  part.resident = false;
  traffic_.resident -= size(part.range);
  if (std::exchange(part.dirty, false)) unwritten_.push_back(part.range);
}

void Offload::make_resident(Part& part, bool writes) {
  part.resident = true;
  part.dirty |= writes;
  traffic_.resident += size(part.range);
}

void Offload::release(const void* data, size_t bytes) {
  const auto* const first = static_cast<const uint8_t*>(data);
  const Range range = {page_of(first + page_size() - 1), page_of(first + bytes)};
  if (range.first >= range.second) return;
  const Lock lock(mutex_);
  ::madvise(range.first, size(range), MADV_DONTNEED);
  auto at = index_.lower_bound({range.first, nullptr});
  if (at != index_.begin()) --at;
  for (; at != index_.end() && at->first.first < range.second; ++at) {
    Part& part = parts_[at->second];
    if (part.resident && part.range.second > range.first) drop(part);
  }
  moved_ = true;
}

Offload::Traffic Offload::traffic() const {
  const Lock lock(mutex_);
  return traffic_;
}

const Offload::Next* Offload::foresee(int ahead) const {
  size_t before = before_last_, last = last_;
  const Next* next = nullptr;
  for (int step = 0; step < ahead; ++step) {
    const auto found = next_.find({before, last});
    if (found == next_.end()) return nullptr;
    next = &found->second;
    before = std::exchange(last, next->part);
  }
  return next;
}

void Offload::read_ahead() {
  size_t ahead_bytes = 0;
  for (int ahead = 1; ahead <= kMostAhead; ++ahead) {
    const Next* const next = foresee(ahead);
    if (next == nullptr || parts_[next->part].range.second == nullptr) return;
    Part& part = parts_[next->part];
    ahead_bytes += size(part.range);
    if (ahead_bytes > window_ / kShareReadAhead) return;
    part.last_use = std::max(part.last_use, clock_);  // not the next one to go
    if (part.resident) continue;
    if (!make_room(size(part.range), next->part)) return;
    make_resident(part, next->writes);
    const Range range = part.range;
    const int advice = next->writes ? kPopulateWrite : kPopulateRead;
    moved_ = false;
    {
      const Unlock meanwhile(mutex_);
      ::madvise(range.first, size(range), advice);  // what fails is read when it is used
    }
    // It may have had to go meanwhile, and what was read since then would stay.
    if (const auto at = index_.find(range); at != index_.end() && !parts_[at->second].resident) {
      ::madvise(range.first, size(range), MADV_DONTNEED);
    }
    if (ends_ || moved_) return;
  }
}

// Writing begins as soon as something is out of the window, not when memory has run out.
void Offload::run() {
  const Lock lock(mutex_);
  while (true) {
    while (!ends_ && !moved_ && unwritten_.empty()) changed_.wait(mutex_);
    if (ends_) return;
    if (std::exchange(moved_, false)) read_ahead();
    if (unwritten_.empty()) continue;
    const Range range = unwritten_.back();
    unwritten_.pop_back();
    const auto mapping = std::prev(mappings_.upper_bound(range.first));
    const int file = ::dup(mapping->second.file);  // the array may be freed meanwhile
    const auto offset = static_cast<off_t>(range.first - mapping->first);
    if (file < 0) continue;
    const Unlock meanwhile(mutex_);
    ::sync_file_range(file, offset, static_cast<off_t>(size(range)), SYNC_FILE_RANGE_WRITE);
    ::close(file);
  }
}

bool is_offloaded(const void* data) { return owner_of(data) != nullptr; }

void release_offloaded(const void* data, size_t bytes) {
  if (Offload* const owner = owner_of(data)) owner->release(data, bytes);
}

}  // namespace thinwire

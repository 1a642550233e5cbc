// What every courier must do, as tests over worlds in which couriers meet. A program that has this
// suite instantiates it for its worlds.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {

// What callbacks brought, on whatever thread.
class MailBase {
 public:
  virtual ~MailBase() = default;
  // Whether there are so many within some seconds.
  bool wait(size_t count, double seconds) {
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, std::chrono::duration<double>(seconds),
                             [&] { return size_ >= count; });
  }

 protected:
  std::mutex mutex_;
  std::condition_variable arrived_;
  size_t size_ = 0;
};

template <typename T>
class Mail final : public MailBase {
 public:
  void add(T item) {
    const std::scoped_lock lock(mutex_);
    items_.push_back(std::move(item));
    ++size_;
    arrived_.notify_all();
  }
  std::vector<T> all() {
    const std::scoped_lock lock(mutex_);
    return items_;
  }

 private:
  std::vector<T> items_;
};

class CourierWorld {
 public:
  virtual ~CourierWorld() = default;
  // A participant that may do everything.
  virtual std::unique_ptr<Courier> connect(const std::string& name) = 0;
  // Whether only "here" may append records and drop the chunks of others.
  virtual bool has_one_coordinator() const { return false; }
  // Whether a dropped chunk may still come from a copy nearer by.
  virtual bool has_copies() const { return false; }
  // Waits until what was stored can be fetched by all.
  virtual void spread() {}
  // Lets things happen until so many have come; false: they do not.
  virtual bool wait(MailBase& mail, size_t count) = 0;
};

// Answers to single calls, waited for. A failure to come at all fails the test.
template <typename T>
Result<T> answer_of(CourierWorld& world,
                    const std::function<void(std::function<void(Result<T>)>)>& call) {
  const auto mail = std::make_shared<Mail<Result<T>>>();
  call([mail](Result<T> result) { mail->add(std::move(result)); });
  if (!world.wait(*mail, 1)) {
    ADD_FAILURE() << "no answer";
    return fail(FailureKind::kDeadline, "no answer");
  }
  return mail->all().front();
}
Result<void> put(CourierWorld& world, Courier& courier, const Bytes& blob);
Result<Bytes> get(CourierWorld& world, Courier& courier, const BlobId& id,
                  const std::vector<std::string>& holders);
Result<uint64_t> append(CourierWorld& world, Courier& courier, const std::string& stream,
                        uint64_t expected_last, const std::string& record);
// Until what the courier asked for before has reached the network.
void flush(CourierWorld& world, Courier& courier);

Bytes random_bytes(size_t size, uint64_t seed);
Bytes bytes_of(std::string_view text);

struct WorldKind {
  const char* name;  // of the tests
  std::unique_ptr<CourierWorld> (*make)();
};
inline void PrintTo(const WorldKind& kind, std::ostream* out) { *out << kind.name; }

class CourierContract : public testing::TestWithParam<WorldKind> {
 protected:
  std::unique_ptr<CourierWorld> world_ = GetParam().make();
};

}  // namespace thinwire::transport

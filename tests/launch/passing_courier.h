// A courier that passes everything on to another, for tests that change some of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/signature.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::launch {

// As membership::Verify, for statements of which a test wants to know only what they say.
inline bool unchecked(const PublicKey&, std::span<const uint8_t>, const Signature&) { return true; }

class PassingCourier : public transport::Courier {
 public:
  explicit PassingCourier(std::unique_ptr<Courier> to) : to_(std::move(to)) {}

  const std::string& self() const override { return to_->self(); }
  bool connected() const override { return to_->connected(); }
  transport::BlobId put(std::shared_ptr<const Bytes> blob, transport::Priority priority,
                        Done done) override {
    return to_->put(std::move(blob), priority, std::move(done));
  }
  void get_part(const Sha256& blob, const transport::BlobId& part, std::vector<std::string> holders,
                transport::Priority priority, Got got) override {
    to_->get_part(blob, part, std::move(holders), priority, std::move(got));
  }
  void drop(const Sha256& blob, const std::string& holder, Done done) override {
    to_->drop(blob, holder, std::move(done));
  }
  void count(Counted counted) override { to_->count(std::move(counted)); }
  void list(const std::string& holder, Listed listed) override {
    to_->list(holder, std::move(listed));
  }
  void publish(const std::string& topic, Bytes statement) override {
    to_->publish(topic, std::move(statement));
  }
  std::unique_ptr<transport::Subscription> subscribe(const std::string& from,
                                                     const std::string& topic,
                                                     OnStatement on_statement) override {
    return to_->subscribe(from, topic, std::move(on_statement));
  }
  void append(const std::string& stream, uint64_t expected_last, Bytes record,
              Appended appended) override {
    to_->append(stream, expected_last, std::move(record), std::move(appended));
  }
  void last(const std::string& stream, Appended answered) override {
    to_->last(stream, std::move(answered));
  }
  std::unique_ptr<transport::Subscription> read(const std::string& stream, uint64_t first,
                                                Take take) override {
    return to_->read(stream, first, std::move(take));
  }

 private:
  const std::unique_ptr<Courier> to_;
};

}  // namespace thinwire::launch

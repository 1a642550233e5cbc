// A courier that does nothing, for tests that need one call of it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {

class IdleCourier : public Courier {
 public:
  const std::string& self() const override { return self_; }
  bool connected() const override { return true; }
  BlobId put(std::shared_ptr<const Bytes>, Priority, Done) override { return {}; }
  void get_part(const Sha256&, const BlobId&, std::vector<std::string>, Priority, Got) override {}
  void drop(const Sha256&, const std::string&, Done) override {}
  void count(Counted) override {}
  void list(const std::string&, Listed) override {}
  void publish(const std::string&, Bytes) override {}
  std::unique_ptr<Subscription> subscribe(const std::string&, const std::string&,
                                          OnStatement) override {
    return nullptr;
  }
  void append(const std::string&, uint64_t, Bytes, Appended) override {}
  void last(const std::string&, Appended) override {}
  std::unique_ptr<Subscription> read(const std::string&, uint64_t, Take) override {
    return nullptr;
  }

 private:
  const std::string self_ = "here";
};

}  // namespace thinwire::transport

#include "thinwire/hosts/request_handler.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "../tiny_run.h"
#include "tests/couriers/courier_memory.h"
#include "thinwire/base/nkey.h"

namespace thinwire::hosts {
namespace {

constexpr double kPatience = 30;  // only what hangs takes that long

// A coordinator that has one file to send, and a guest who asks for it.
class RequestedFile : public testing::Test {
 protected:
  RequestedFile() : file_(test_folder() / "weights"), id_(transport::blob_id(as_bytes(text_))) {
    write_file(file_, text_);
    files_.emplace(id_.name, FilePart{file_, 0, id_.bytes});
    handler_.emplace(*courier_, *coordinator_, files_, callbacks());
    runs_ = std::thread([this] {
      while (!ended_) {
        if (!network_.step()) std::this_thread::yield();
      }
    });
    serves_ = std::thread([this] {
      while (!ended_) handler_->serve_pending(0.01);
    });
  }
  ~RequestedFile() override {
    ended_ = true;
    runs_.join();
    serves_.join();
  }

  // Why it is refused; empty: it is in the store.
  std::string ask() {
    const auto own = make_signer(make_seed());
    RequestClient client(*guest_, coordinator_->key(), *own);
    const auto answer = client.ask(RequestKind::kData,
                                   Bytes(id_.name.bytes.begin(), id_.name.bytes.end()), kPatience);
    return answer ? "" : answer.error().message;
  }

  const std::string text_ = "the weights";
  const fs::path file_;
  const transport::BlobId id_;

 private:
  static RequestHandler::Callbacks callbacks() {
    RequestHandler::Callbacks callbacks;
    callbacks.leads = [] { return true; };
    callbacks.refusal = [](const Request&) { return std::string(); };
    return callbacks;
  }

  std::atomic<bool> ended_ = false;
  transport::MemoryNetwork network_{{}};
  const std::unique_ptr<Signer> coordinator_ = make_signer(make_seed());
  const std::unique_ptr<transport::Courier> courier_ =
      network_.connect(participant_name(coordinator_->key()));
  const std::unique_ptr<transport::Courier> guest_ = network_.connect("guest");
  std::map<Sha256, FilePart> files_;
  std::optional<RequestHandler> handler_;
  std::thread runs_;
  std::thread serves_;
};

TEST_F(RequestedFile, IsStoredOnRequest) { EXPECT_EQ(ask(), ""); }

TEST_F(RequestedFile, ThatHasChangedOrIsGoneIsRefusedUntilItIsBack) {
  const std::string refusal =
      "the coordinator no longer has weights as it was when the run was founded";
  write_file(file_, "THE WEIGHTS");
  EXPECT_EQ(ask(), refusal);
  write_file(file_, "short");
  EXPECT_EQ(ask(), refusal);
  fs::remove(file_);
  EXPECT_EQ(ask(), refusal);
  write_file(file_, text_);
  EXPECT_EQ(ask(), "");
}

}  // namespace
}  // namespace thinwire::hosts

#include <gmock/gmock.h>

#include "../tiny_run.h"
#include "tests/errors.h"
#include "thinwire/base/digest.h"
#include "thinwire/hosts/served_run.h"

namespace thinwire::hosts {
namespace {

using membership::Position;

Position position(uint64_t sequence) {
  return {sequence, sha256(Bytes{static_cast<uint8_t>(sequence)})};
}

class LedgerNotes : public testing::Test {
 protected:
  Position found() const { return LedgerNote(folder_).remembered(); }

  const fs::path folder_ = test_folder();
};

TEST_F(LedgerNotes, HoldTheFirstRecordAtOnceAndLaterOnesOnceTheyLast) {
  LedgerNote note(folder_);
  EXPECT_EQ(note.remembered(), Position());
  note.keep(0);
  EXPECT_EQ(found(), Position()) << "nothing was recorded";
  note.reached(position(1));
  note.keep(0);
  EXPECT_EQ(found(), position(1));
  note.reached(position(2));
  note.keep(10);
  note.reached(position(3));
  note.keep(10 + LedgerNote::kLastingSeconds - 1);
  EXPECT_EQ(found(), position(1));
  note.keep(10 + LedgerNote::kLastingSeconds);
  EXPECT_EQ(found(), position(2));
  note.keep_last();
  EXPECT_EQ(found(), position(3));
}

TEST_F(LedgerNotes, ThatAreDamagedAreRefused) {
  for (const char* text : {"", "7", "7 \n", "x 00\n", "7 00\n"}) {
    write_file(folder_ / "ledger", text);
    EXPECT_THAT(tests::error_of([&] { found(); }), testing::HasSubstr("is damaged")) << text;
  }
}

}  // namespace
}  // namespace thinwire::hosts

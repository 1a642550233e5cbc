#include "thinwire/launch/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace thinwire::launch {
namespace {

train::StepPart part() {
  train::StepPart part;
  part.members = 15;
  part.loss_sum = 1.5;
  part.tokens = 2;
  part.uncounted = 16;
  part.learning_rate = 3;
  part.gradient_norm = 4;
  part.bytes_sent = 5;
  part.bytes_received = 6;
  part.data_s = 7;
  part.compute_s = 8;
  part.exchange_s = 9;
  part.update_s = 10;
  part.simulated_s = 11;
  part.simulated_compute_s = 12;
  part.synchronised = true;
  part.digest = 13;
  part.state_digest = 14;
  part.pairs = {17, 18, 19.5, -20};
  return part;
}

CheckpointNote checkpoint() {
  return {7,
          1,
          4,
          {{"adamw.m", {1, 2.5f}}, {"adamw.v", {}}},
          {{"payload", {1, 2, 3}}},
          {{"muon.momentum", DType::kU8, {4, 5, 6}}, {"b", DType::kBf16, {7, 8}}}};
}

// One of each kind.
std::vector<Note> all_kinds() {
  return {StartNote{true, "runs/a", {"kjv", "validation"}, {10, 2.5, 3}},
          StepNote{3, 1, part()},
          EvaluationNote{3, 1, "kjv", {3, 2, 4}},
          EvaluationNote{3, 1, "arc_easy.acc", {3, 2, 4, true}},
          checkpoint(),
          CompleteNote(),
          StopRequestNote(),
          StopAskNote(),
          StopAnswerNote{5},
          StopAtNote{6},
          CheckpointAskNote{7},
          CheckpointAnswerNote{8},
          CheckpointAtNote{9}};
}

std::string refusal(const Bytes& bytes) {
  const Result<Note> note = decode_note(bytes);
  return note ? "" : note.error().message;
}

TEST(Notes, EveryKindArrivesAsItWasSent) {
  for (const Note& note : all_kinds()) {
    const Bytes bytes = encode_note(note);
    const Result<Note> arrived = decode_note(bytes);
    ASSERT_TRUE(arrived) << arrived.error().message;
    EXPECT_EQ(arrived->index(), note.index());
    EXPECT_EQ(encode_note(*arrived), bytes);
  }
}

TEST(Notes, FieldsArriveInTheirPlaces) {
  const auto step = std::get<StepNote>(*decode_note(encode_note(StepNote{3, 1, part()})));
  EXPECT_EQ(step.step, 3);
  EXPECT_EQ(step.worker, 1);
  const train::StepPart& got = step.part;
  EXPECT_EQ(got.members, 15);
  EXPECT_EQ(got.loss_sum, 1.5);
  EXPECT_EQ(got.tokens, 2);
  EXPECT_EQ(got.learning_rate, 3);
  EXPECT_EQ(got.gradient_norm, 4);
  EXPECT_EQ(got.bytes_sent, 5u);
  EXPECT_EQ(got.bytes_received, 6u);
  EXPECT_EQ(got.data_s, 7);
  EXPECT_EQ(got.compute_s, 8);
  EXPECT_EQ(got.exchange_s, 9);
  EXPECT_EQ(got.update_s, 10);
  EXPECT_EQ(got.simulated_s, 11);
  EXPECT_EQ(got.simulated_compute_s, 12);
  EXPECT_TRUE(got.synchronised);
  EXPECT_EQ(got.digest, 13u);
  EXPECT_EQ(got.state_digest, 14u);
  EXPECT_EQ(got.pairs.pairs, 17);
  EXPECT_EQ(got.pairs.right, 18);
  EXPECT_EQ(got.pairs.chosen, 19.5);
  EXPECT_EQ(got.pairs.rejected, -20);

  const auto state = std::get<CheckpointNote>(*decode_note(encode_note(checkpoint())));
  EXPECT_EQ(state.members, 4);
  EXPECT_EQ(state.local, checkpoint().local);
  EXPECT_EQ(state.in_flight, checkpoint().in_flight);
  EXPECT_EQ(state.stored, checkpoint().stored);
}

// docs/formats.md.
TEST(Notes, BytesAreAsDocumented) {
  EXPECT_EQ(encode_note(StartNote{true, "ab", {"c"}, {1, 2.0, 3}}),
            (Bytes{0, 1, 2, 0, 0, 0, 'a', 'b',        //
                   1, 0, 0, 0, 1, 0, 0,   0,    'c',  //
                   1, 0, 0, 0, 0, 0, 0,   0,          //
                   0, 0, 0, 0, 0, 0, 0,   0x40,       //
                   3, 0, 0, 0, 0, 0, 0,   0}));
  EXPECT_EQ(encode_note(CompleteNote()), (Bytes{4}));
  EXPECT_EQ(encode_note(StopAtNote{258}), (Bytes{8, 2, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(encode_note(StepNote{1, 2, part()}).size(), 1 + 8 + 4 + 20 * 8 + 1u);
  const CheckpointNote small = {1, 2, 4, {{"m", {1.0f}}}, {{"p", {9}}}, {{"c", DType::kU8, {7}}}};
  EXPECT_EQ(encode_note(small),
            (Bytes{3, 1, 0, 0, 0, 0, 0, 0, 0,   2, 0,    0,    0,  //
                   4, 0, 0, 0, 0, 0, 0, 0,                         //
                   1, 0, 0, 0, 1, 0, 0, 0, 'm',                    //
                   1, 0, 0, 0, 0, 0, 0, 0, 0,   0, 0x80, 0x3f,     //
                   1, 0, 0, 0, 1, 0, 0, 0, 'p', 1, 0,    0,    0, 0, 0, 0, 0, 9, 1,
                   0, 0, 0, 4, 1, 0, 0, 0, 'c', 1, 0,    0,    0, 0, 0, 0, 0, 7}));
}

TEST(Notes, CutOrLengthenedTheyAreRefused) {
  for (const Note& note : all_kinds()) {
    const Bytes good = encode_note(note);
    for (size_t length = 0; length < good.size(); ++length) {
      EXPECT_NE(refusal({good.begin(), good.begin() + static_cast<ptrdiff_t>(length)}), "");
    }
    Bytes longer = good;
    longer.push_back(0);
    EXPECT_THAT(refusal(longer), testing::HasSubstr("bytes follow its end"));
  }
}

TEST(Notes, DamageIsRefusedAndNamed) {
  EXPECT_THAT(refusal({12}), testing::HasSubstr("kind 12; known kinds are 0 to 11"));
  Bytes start = encode_note(StartNote());
  start[1] = 2;
  EXPECT_THAT(refusal(start), testing::HasSubstr("neither"));
  EXPECT_THAT(refusal({8, 0, 0, 0, 0, 0, 0, 0, 0x80}), testing::HasSubstr("out of range"));
  EXPECT_THAT(refusal({8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}),
              testing::HasSubstr("out of range"));
  // Lengths are checked before anything is allocated.
  Bytes bytes = encode_note(checkpoint());
  bytes[21 + 3] = 0x7f;  // entries of the first list
  EXPECT_THAT(refusal(bytes), testing::HasSubstr("a list is truncated"));
  CheckpointNote elsewhere = checkpoint();
  elsewhere.stored[0].dtype = DType::kI64;
  EXPECT_THAT(refusal(encode_note(elsewhere)), testing::HasSubstr("state of an unknown type"));
  elsewhere = checkpoint();
  elsewhere.in_flight[0].first = "/../../x";
  EXPECT_THAT(refusal(encode_note(elsewhere)), testing::HasSubstr("letters, digits"));
}

}  // namespace
}  // namespace thinwire::launch

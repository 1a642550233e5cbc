// Shared by the writer and the reader of event files: constants of protobuf's wire format and of
// tensorflow.Event (tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto).
#pragma once

#include <cstdint>

namespace thinwire::events {

constexpr const char* kFileNameStart = "events.out.tfevents.";

// Protobuf wire types.
enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

// Field numbers of tensorflow.Event and the messages inside it.
constexpr uint32_t kEventWallTime = 1;
constexpr uint32_t kEventStep = 2;
constexpr uint32_t kEventFileVersion = 3;
constexpr uint32_t kEventSummary = 5;
constexpr uint32_t kEventSessionLog = 7;
constexpr uint32_t kSummaryValue = 1;
constexpr uint32_t kValueTag = 1;
constexpr uint32_t kValueSimpleValue = 2;
constexpr uint32_t kSessionLogStatus = 1;
constexpr uint64_t kSessionStart = 1;

}  // namespace thinwire::events

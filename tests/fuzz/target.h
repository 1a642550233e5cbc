// A fuzz target is libFuzzer's entry point in its own program, and a function with its own name in
// fuzz_test, which contains all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

// Ends the program, which is a finding, unless `holds`.
inline void require(bool holds) {
  if (!holds) std::abort();
}

#ifdef THINWIRE_FUZZ_PROGRAM
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
#define FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput
#else
int fuzz_answer(const uint8_t* data, size_t size);
int fuzz_courier(const uint8_t* data, size_t size);
int fuzz_frame(const uint8_t* data, size_t size);
int fuzz_note(const uint8_t* data, size_t size);
int fuzz_parts(const uint8_t* data, size_t size);
int fuzz_payload(const uint8_t* data, size_t size);
int fuzz_record(const uint8_t* data, size_t size);
int fuzz_relay(const uint8_t* data, size_t size);
int fuzz_request(const uint8_t* data, size_t size);
int fuzz_snapshot(const uint8_t* data, size_t size);
int fuzz_sparse(const uint8_t* data, size_t size);
int fuzz_statement(const uint8_t* data, size_t size);
int fuzz_summary(const uint8_t* data, size_t size);
int fuzz_wire(const uint8_t* data, size_t size);
#define FUZZ_TARGET(name) int fuzz_##name
#endif

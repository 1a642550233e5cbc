// A short summary of a long vector, from which the angle between two vectors can be estimated: its
// projection onto kSketchValues random directions, a count sketch (Charikar, Chen, Farach-Colton
// 2002, "Finding frequent items in data streams"). Every element is added to one of the sums,
// chosen by a hash, with a sign that is chosen by a hash, too. The dot product of two sketches is
// that of the vectors, but for noise of about 1/sqrt(kSketchValues) of their lengths' product; and
// the difference of two sketches has the length of the vectors' difference, but for about 1/sqrt(2
// kSketchValues) of it, so that nearly equal vectors can be told from equal ones.
//
// Whoever knows the seed can find vectors that differ and whose sketches do not, and the reverse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::codec {

inline constexpr size_t kSketchValues = 1024;

// One object per thread. The same values in the same order give the same bits everywhere.
class ValueSketch {
 public:
  explicit ValueSketch(uint64_t seed) : seed_(seed), sums_(kSketchValues) {}

  // Makes it that of a vector of zeros.
  void clear();
  // Adds values to the vector's elements first, first + 1, ...
  void add(uint64_t first, std::span<const float> values);
  // The sketch, divided by its length; empty if it is zero or not finite.
  std::vector<float> direction() const;

 private:
  uint64_t seed_;
  std::vector<double> sums_;
};

// The cosine of the angle between two vectors, by their directions; both have the same seed and
// neither is empty.
double cosine(std::span<const float> a, std::span<const float> b);

}  // namespace thinwire::codec

// Tables of rotary position embeddings (Su et al. 2021, arXiv 2104.09864) and their scaling to
// longer contexts, with the definitions of transformers 5 (modeling_rope_utils.py):
//
//     f_i = theta^(-2i / D)                          the frequency of pair i of D / 2
//     linear    f_i / factor                         (Chen et al. 2023, arXiv 2306.15595)
//     dynamic   theta grows with a text longer than the context, by
//               (factor * length / context - (factor - 1))^(D / (D - 2))
//     llama3    f_i, f_i / factor, or between them, by the wavelength 2 pi / f_i against the
//               context (Llama Team 2024, arXiv 2407.21783)
//     yarn      the same by the number of rotations of the pair in the context; queries and keys
//     are
//               multiplied by attention_factor (Peng et al. 2023, arXiv 2309.00071)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "thinwire/base/rope.h"

namespace thinwire::tensor {

// The frequencies [head_size / 2], in radians per position, for a text of `length` tokens, a number
// that only dynamic scaling depends on.
std::vector<double> rope_frequencies(const RopeSpec& rope, int64_t head_size, int64_t length);

// The factor of all cosines and sines: 1 except for yarn.
double rope_magnitude(const RopeSpec& rope);

// Cosines and sines of position * frequency for [positions, head_size / 2], in texts of `length`
// tokens.
class RopeTable {
 public:
  RopeTable(int64_t positions, int64_t head_size, const RopeSpec& rope, int64_t length = 1);

  const float* cosine(int64_t position) const { return cosine_.data() + position * half_; }
  const float* sine(int64_t position) const { return sine_.data() + position * half_; }
  size_t bytes() const { return (cosine_.size() + sine_.size()) * sizeof(float); }

  // Whether this is the table for texts of `length` tokens; only with dynamic scaling may it not
  // be.
  bool is_for(int64_t length) const;

 private:
  int64_t half_;
  RopeSpec rope_;
  int64_t length_;
  std::vector<float> cosine_, sine_;
};

}  // namespace thinwire::tensor

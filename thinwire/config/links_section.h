// The table [links] of a recipe: the network that a run is reported for, which says what its
// wall-clock would have been.
#pragma once

#include <cstdint>

#include "thinwire/config/fields.h"

namespace thinwire::config {

struct LinksSection final : SectionOf<LinksSection> {
  double down_bit_s = 100e6;
  double up_bit_s = 10e6;
  double delay_s = 0.02;
  double loss = 0;
  double step_s = 0;   // > 0: the links are simulated in virtual time
  bool paced = false;  // real bytes take as long as over the links
  StringList members;  // "MEMBER.FIELD=VALUE" where a member's link is another
  void describe(Fields& fields) override;
};

}  // namespace thinwire::config

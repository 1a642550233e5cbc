// The table [links] of a recipe: the network for which a run's wall-clock time is reported.
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
  bool paced = false;  // real bytes are slowed down to these links
  StringList members;  // "MEMBER.FIELD=VALUE" where a member's link differs
  void describe(Fields& fields) override;
};

}  // namespace thinwire::config

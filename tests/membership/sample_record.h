// Records with something in every field.
#pragma once

#include "fake_signer.h"
#include "thinwire/membership/record.h"

namespace thinwire::membership {

inline Record full_record() {
  Record record;
  record.sequence = 9;
  record.previous = hash_of(1);
  record.writer = fake_key(0);
  record.changes = {Founding{7, hash_of(2), hash_of(3), 500, {fake_key(0), fake_key(1)}},
                    Admission{3, fake_key(5)},
                    PhaseChange{3, Phase::kCatchingUp, 4},
                    PhaseChange{2, Phase::kActive, {}},
                    Snapshot{1, 8, hash_of(4), 600},
                    Speed{1, 2.5f},
                    Offence{0, OffenceKind::kConduct},
                    AgreedDigest{5, 77},
                    Evaluation{16, 2.5, true},
                    Evaluation{18, {}, false}};
  Commit commit{{7, 1, 6, 2}, {{0, 6, hash_of(5), 100, 8}, {1, 5, hash_of(6), 90, 4}}, 1.0f / 12};
  record.closing = Closing{6, {commit}, {2}};
  record.openings = {Opening{7,
                             2,
                             14,
                             true,
                             {{0.5f, 0.5f}, {0.25f, 0.75f}},
                             {{0, 1000}, {2, 50}},
                             {{0, {0, 3}, 0}, {1, {3, 5}, 14}}}};
  return record;
}

}  // namespace thinwire::membership

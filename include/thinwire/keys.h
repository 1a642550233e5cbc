// Who may take part in a run that this machine serves, as `thinwire keys` shows and changes
// (docs/security.md). A coordinator that serves the run (thinwire/serving.h) notices within a
// second. Target thinwire::run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

enum class KeyRole {
  kMember,
  kObserver,  // reads the run and sends nothing
  kAuditor,   // checks what members send (docs/audits.md)
};

// All of them throw UsageError if `run_folder` is not that of a run which was served from here.

struct TokenOptions {
  KeyRole role = KeyRole::kMember;  // of those who enrol with it
  double days = 7;                  // for which it is valid; 0: without limit
  bool single_use = false;          // it enrols one key only
};

// A new token, for join_run (thinwire/joining.h) or `thinwire join`. It is a secret and cannot be
// shown again.
std::string issue_token(const std::filesystem::path& run_folder, const TokenOptions& options = {});

// A token that was issued, or the key of a machine that enrolled with one.
struct RunKey {
  std::string id;
  bool token = false;
  KeyRole role = KeyRole::kMember;
  int64_t since = 0;    // seconds since 1970
  int64_t expires = 0;  // likewise; 0: never
  bool single_use = false;
  bool revoked = false;
  std::string enrolled_with = {};  // of a key: the id of its token
  int member = -1;                 // of a key: its number in the run; -1: it has not joined
  std::string machine = {};        // of a key: what its owner calls it; may be empty
};

// Tokens first, each in order of time.
std::vector<RunKey> list_keys(const std::filesystem::path& run_folder);

// Revokes the token or key whose id is, or begins with, these at least four characters, and the
// keys enrolled with the token: their owners are disconnected. Returns what was done, and on a
// cluster what its admin has to do. Throws UsageError if none or several match.
std::string revoke_key(const std::filesystem::path& run_folder, const std::string& id);

}  // namespace thinwire

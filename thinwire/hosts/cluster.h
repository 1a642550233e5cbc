// An existing NATS cluster that carries runs: `thinwire serve --nats … --creds …`. It
// is in operator mode: its servers know an operator, who vouches for an account, whose key admits
// the participants of the account's runs (transport/nats/nats_jwt.h). docs/operations.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/signature.h"
#include "thinwire/transport/nats/nats_jwt.h"

namespace thinwire::hosts {

struct ClusterOptions {
  std::string servers;  // --nats: URLs, separated by commas
  fs::path key_file;    // --creds
  fs::path ca_file;     // --ca: the authority of the servers' certificates; empty: the system's
  // --sites: each server is a site's, and keeps what its members store. It has its host, as named
  // in `servers`, among its server_tags. The coordinator's site is that of the first one.
  bool sites = false;
};

// The servers as HOST:PORT, from tls://HOST:PORT, nats://HOST:PORT or HOST:PORT; the port is 4222
// where there is none. Throws UsageError that names --nats for anything else.
std::vector<std::string> parse_servers(const std::string& urls);

// The certificate in the file of --ca, as PEM; empty if there is no file. Throws UsageError that
// names --ca if the file does not hold one.
std::string read_authority(const fs::path& ca_file);

// The key of an account from the text of a file, which holds its seed (SA…), or that of one of its
// signing keys and the account's public key (A…). What follows a # is a comment. Throws UsageError
// that names --creds and says what the file should hold.
transport::AccountKey parse_account_key(const std::string& text);
std::string print_account_key(const transport::AccountKey& key, const std::string& comment);

// The key that all coordinators of a run on an account share, derived from the account's key.
// `run`: its identity (checkpoint::new_run_id).
Seed coordinators_seed(const transport::AccountKey& account, uint64_t run, const std::string& name);

// Sets up a NATS cluster to carry runs, for those who do not have NATS's own tool for it (nsc): an
// operator, whom the cluster's servers trust, and accounts for runs. The library behind `thinwire
// keys account`; docs/operations.md.
struct ClusterAccount {
  fs::path configuration;  // accounts.conf, for every server to include
  fs::path key;            // NAME.key, for `thinwire serve --creds`
};

// Adds an account to the operator whose keys are in `folder`; creates both, readable by their owner
// only, if there are none yet. Throws UsageError for a name that is taken or is not a courier name,
// and Error if a key is damaged.
ClusterAccount add_account(const fs::path& folder, const std::string& name);

}  // namespace thinwire::hosts

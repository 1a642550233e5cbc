// thinwire: trains language models over thin wires.
#include <cstdio>
#include <cstdlib>

#include "thinwire/cli/program.h"

int main(int argc, char** argv) {
  const int status = thinwire::cli::run_program(argc, argv);
  std::fflush(nullptr);
  // Without the exit handlers: OpenSSL's frees what threads of libnats, which end later, still use,
  // and to wait for these with nats_CloseAndWait crashes in libnats 3.4.
  std::_Exit(status);
}

// thinwire: trains language models over thin wires.
#include "thinwire/cli/program.h"

int main(int argc, char** argv) { return thinwire::cli::run_program(argc, argv); }

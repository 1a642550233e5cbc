// The program `thinwire` as a function.
#pragma once

namespace thinwire::cli {

// Does what the arguments, as main() gets them, ask for. Errors are reported on stderr, in one line
// that begins with the program's name. Returns the exit status: 0 done, 1 failed, 2 usage error;
// interrupted work ends the process by the signal that interrupted it.
int run_program(int argc, const char* const* argv);

}  // namespace thinwire::cli

// The program `thinwire` as a function.
#pragma once

namespace thinwire::cli {

// Does what the arguments say, as main() gets them. What goes wrong is said on stderr, in one line
// that begins with the program's name. Returns the exit status: 0 done, 1 failed, 2 wrong use;
// interrupted work ends the process by the signal that interrupted it.
int run_program(int argc, const char* const* argv);

}  // namespace thinwire::cli

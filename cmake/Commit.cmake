# cmake -DSOURCE=<source folder> -DOUT=<file> -P Commit.cmake
#
# Writes the C++ source that contains the commit, but only if it has changed, because this runs with
# every build.

find_program(git git)
set(commit "unknown")
if(git AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND "${git}" -C "${SOURCE}" describe --always --exclude=* --abbrev=12 --dirty=+
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE
                  RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed AND described)
    set(commit "${described}")
  endif()
endif()
file(CONFIGURE OUTPUT "${OUT}.new" @ONLY CONTENT [[
#include "thinwire/cli/program.h"

namespace thinwire::cli {
const char* const kCommit = "@commit@";
}
]])
file(COPY_FILE "${OUT}.new" "${OUT}" ONLY_IF_DIFFERENT)

// What the static libraries ask for of glibcs that are newer than the one that packages shall run
// with. Linked into the program.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// glibc 2.32, for libstdc++: whether locked instructions may be left out.
char __libc_single_threaded = 0;

// glibc 2.36, for std::random_device.
uint32_t arc4random(void) {
  uint32_t number;
  if (getentropy(&number, sizeof(number)) != 0) abort();
  return number;
}

// glibc 2.38, whose headers rename these, for libnats.
long __isoc23_strtol(const char* text, char** end, int base) { return strtol(text, end, base); }

int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list places;
  va_start(places, format);
  const int count = vsscanf(text, format, places);
  va_end(places);
  return count;
}

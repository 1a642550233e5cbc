// The message of an exception, made readable. Our own errors are written for users; those of
// std::filesystem ("filesystem error: cannot create directories: Not a directory [a/b]") and of the
// allocator ("std::bad_alloc") are not.
#pragma once

#include <exception>
#include <string>

namespace thinwire {

// "cannot create folder a/b: Not a directory"; "not enough memory"; otherwise what().
std::string plain_message(const std::exception& error);

}  // namespace thinwire

// The files of the live page, which are part of the program (cmake/EmbedPage.cmake).
#pragma once

#include <span>
#include <string_view>

namespace thinwire::page {

struct PageFile {
  std::string_view path;  // "/page.css"; "/" is index.html
  std::string_view type;  // of its content
  std::string_view text;
};

std::span<const PageFile> page_files();

}  // namespace thinwire::page

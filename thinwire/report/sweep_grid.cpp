#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/config/toml_document.h"
#include "thinwire/report/sweep_results.h"

namespace thinwire::report {
namespace {

constexpr size_t kMaxRuns = 10'000;
constexpr const char* kSeedField = "run.seed";

using Point = std::vector<FieldValue>;

struct FieldNode {
  std::string field;
  const toml::node* node;
};

std::string shown(const toml::node& node) {
  if (node.is_table()) return "a table";
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  std::ostringstream out;
  out << toml::toml_formatter(node);
  return out.str();
}

class GridReader {
 public:
  GridReader(const toml::table& document, std::string_view origin)
      : document_(document), origin_(origin) {}

  Grid read() const {
    refuse_unknown_keys();
    Grid grid;
    grid.origin = origin_;
    grid.recipe = read_recipe();
    grid.seeds = read_seeds();
    if (const toml::table* fixed = table("fixed")) {
      for (const auto& [field, node] : fields_of(*fixed, "fixed")) {
        grid.fixed.emplace_back(field, value(node, "fixed." + field));
      }
    }
    grid.points = read_points();
    cross_with_grid(grid.points);
    note_swept(grid);
    return grid;
  }

 private:
  [[noreturn]] void refuse(std::string_view key, std::string_view problem) const {
    throw UsageError(fmt::format("{}: {} {}", origin_, key, problem));
  }

  void refuse_unknown_keys() const {
    for (const auto& [key, node] : document_) {
      const std::string_view name = key.str();
      constexpr std::string_view kKnown[] = {"recipe", "seeds", "fixed", "grid", "points"};
      if (std::ranges::find(kKnown, name) != std::end(kKnown)) continue;
      if (!document_.contains("recipe") && node.is_table()) {
        throw UsageError(fmt::format(
            "{0} is a recipe (it has [{1}]), not a grid, which names one and what to vary: recipe "
            "= \"{0}\" and, for example, [grid] optim.lr = [1e-3, 3e-3]",
            origin_, name));
      }
      refuse(name, "is not known; a grid has recipe, seeds, [fixed], [grid] and [[points]]");
    }
  }

  std::string read_recipe() const {
    const auto recipe = document_["recipe"].value_exact<std::string>();
    if (!recipe) refuse("recipe", "must be given, as the path of a recipe in quotes");
    return *recipe;
  }

  std::vector<std::string> read_seeds() const {
    const toml::node* node = document_.get("seeds");
    if (node == nullptr) return {};
    const toml::array* list = node->as_array();
    if (list == nullptr || list->empty() || !list->is_homogeneous<int64_t>()) {
      refuse("seeds", "must be a list of integers, e.g. [1, 2], got " + shown(*node));
    }
    std::vector<std::string> seeds;
    for (const toml::node& seed : *list) seeds.push_back(shown(seed));
    refuse_repeats(seeds, "seeds");
    return seeds;
  }

  void refuse_repeats(std::vector<std::string> values, std::string_view key) const {
    std::ranges::sort(values);
    const auto repeated = std::ranges::adjacent_find(values);
    if (repeated != values.end()) refuse(key, fmt::format("has {} twice", *repeated));
  }

  const toml::table* table(std::string_view key) const {
    const toml::node* node = document_.get(key);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) refuse(key, "must be a table, got " + shown(*node));
    return node->as_table();
  }

  // The leaves of a table with their dotted names, in the order of the file.
  std::vector<FieldNode> fields_of(const toml::table& values, const std::string& place) const {
    std::vector<FieldNode> fields;
    for (const auto& [key, node] : values) {
      const std::string name(key.str());
      if (const toml::table* inner = node.as_table()) {
        for (const FieldNode& field : fields_of(*inner, fmt::format("{}.{}", place, name))) {
          fields.push_back({name + "." + field.field, field.node});
        }
        continue;
      }
      fields.push_back({name, &node});
    }
    std::ranges::stable_sort(fields, {}, [](const FieldNode& field) {
      const toml::source_position& at = field.node->source().begin;
      return std::pair(at.line, at.column);
    });
    for (const FieldNode& field : fields) {
      if (field.field == kSeedField) refuse(place + "." + field.field, "is set by seeds");
    }
    return fields;
  }

  std::string value(const toml::node* node, const std::string& key) const {
    if (!node->is_value() && !node->is_array()) refuse(key, "must be a value");
    return shown(*node);
  }

  std::vector<Point> read_points() const {
    const toml::node* node = document_.get("points");
    if (node == nullptr) return {{}};
    const toml::array* list = node->as_array();
    if (list == nullptr || list->empty() || !list->is_homogeneous<toml::table>()) {
      refuse("points", "must be written as [[points]] tables");
    }
    std::vector<Point> points;
    for (const toml::node& entry : *list) {
      const std::string place = fmt::format("points[{}]", points.size());
      Point& point = points.emplace_back();
      for (const auto& [field, value_node] : fields_of(*entry.as_table(), place)) {
        point.emplace_back(field, value(value_node, fmt::format("{}.{}", place, field)));
      }
    }
    return points;
  }

  void cross_with_grid(std::vector<Point>& points) const {
    const toml::table* lists = table("grid");
    if (lists == nullptr) return;
    for (const auto& [field, node] : fields_of(*lists, "grid")) {
      const std::string key = "grid." + field;
      const toml::array* list = node->as_array();
      if (list == nullptr || list->empty()) {
        refuse(key, "must be a list of values, e.g. [1e-3, 3e-3], got " + shown(*node));
      }
      std::vector<std::string> values;
      for (const toml::node& entry : *list) values.push_back(value(&entry, key));
      refuse_repeats(values, key);
      if (points.size() * values.size() > kMaxRuns) {
        refuse(key, fmt::format("makes more than {} runs", kMaxRuns));
      }
      points = crossed(points, field, values);
    }
  }

  std::vector<Point> crossed(const std::vector<Point>& points, const std::string& field,
                             const std::vector<std::string>& values) const {
    std::vector<Point> result;
    for (const Point& point : points) {
      for (const FieldValue& known : point) {
        if (known.first == field) refuse("grid." + field, "is in [[points]] too");
      }
      for (const std::string& text : values) {
        result.push_back(point);
        result.back().emplace_back(field, text);
      }
    }
    return result;
  }

  void note_swept(Grid& grid) const {
    for (const Point& point : grid.points) {
      for (const auto& [field, text] : point) {
        if (std::ranges::find(grid.swept, field) == grid.swept.end()) grid.swept.push_back(field);
      }
    }
    for (const auto& [field, text] : grid.fixed) {
      if (field == "run.dir" || field == "run.name") {
        refuse("fixed." + field, "is set by the sweep for each run; --out says where the runs go");
      }
      if (std::ranges::find(grid.swept, field) != grid.swept.end()) {
        refuse("fixed." + field, "is varied by the sweep too");
      }
    }
  }

  const toml::table& document_;
  std::string_view origin_;
};

}  // namespace

Grid parse_grid(std::string_view toml, std::string_view origin) {
  const toml::table document = config::parse_toml(toml, origin);
  return GridReader(document, origin).read();
}

Grid load_grid(const fs::path& file) { return parse_grid(read_text_file(file), file.string()); }

}  // namespace thinwire::report

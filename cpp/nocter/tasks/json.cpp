#include "nocter/tasks/json.hpp"

// Boost.JSON's parser without its values, and without the library to link: what the parser calls is compiled here. Under another name, so that
// a host may have the library as well when everything is linked into one file.
#define json nocter_json
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/detail/impl/default_resource.ipp>
#include <boost/json/detail/impl/except.ipp>
#include <boost/json/detail/impl/shared_resource.ipp>
#include <boost/json/detail/impl/stack.ipp>
#include <boost/json/impl/error.ipp>
#undef json

namespace nocter::tasks {

namespace {

namespace json = boost::nocter_json;

// Takes everything in and keeps nothing.
// NOLINTBEGIN(readability-identifier-naming): the parser asks for these names.
struct Check {
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;
  // NOLINTEND(readability-identifier-naming)
  bool nul = false;

  // A NUL as it is ends no JSON string, so the one that is found here was written as an escape.
  bool text(json::string_view part, json::error_code& ec) {
    if (part.find('\0') == json::string_view::npos) return true;
    nul = true;
    ec = json::error::syntax;
    return false;
  }
  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) { return true; }
  bool on_object_end(size_t, json::error_code&) { return true; }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(size_t, json::error_code&) { return true; }
  bool on_key_part(json::string_view part, size_t, json::error_code& ec) { return text(part, ec); }
  bool on_key(json::string_view part, size_t, json::error_code& ec) { return text(part, ec); }
  bool on_string_part(json::string_view part, size_t, json::error_code& ec) { return text(part, ec); }
  bool on_string(json::string_view part, size_t, json::error_code& ec) { return text(part, ec); }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(int64_t, json::string_view, json::error_code&) { return true; }
  bool on_uint64(uint64_t, json::string_view, json::error_code&) { return true; }
  bool on_double(double, json::string_view, json::error_code&) { return true; }
  bool on_bool(bool, json::error_code&) { return true; }
  bool on_null(json::error_code&) { return true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
};

// Where it is wrong, or the size of the text; `ec` says what.
size_t parse(std::string_view text, uint32_t maximum_depth, json::error_code& ec, bool& nul) {
  json::parse_options options;
  options.max_depth = maximum_depth;
  json::basic_parser<Check> parser(options);
  const size_t taken = parser.write_some(false, text.data(), text.size(), ec);
  nul = parser.handler().nul;
  if (!ec && taken < text.size()) ec = json::error::extra_data;
  return taken;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The parser refuses exponents that no int holds, and numbers of any size are fine here. The same text with the digits of such exponents
// zeroed is JSON exactly when the text is; in a string digits may be others as well (an escape of one half of a surrogate pair stays one).
std::string with_small_exponents(std::string_view text) {
  constexpr size_t kLong = 9;
  std::string copy(text);
  for (size_t i = 0; i + kLong < copy.size(); i++) {
    if (copy[i] != 'e' && copy[i] != 'E') continue;
    size_t first = i + 1;
    if (copy[first] == '+' || copy[first] == '-') first++;
    size_t last = first;
    while (last < copy.size() && is_digit(copy[last])) last++;
    if (last - first >= kLong)
      std::fill(copy.begin() + static_cast<ptrdiff_t>(first), copy.begin() + static_cast<ptrdiff_t>(last), '0');
    i = last - 1;
  }
  return copy;
}

}  // namespace

Status check_json(std::string_view text, uint32_t maximum_depth, std::string& message) {
  json::error_code ec;
  bool nul = false;
  size_t at = parse(text, maximum_depth, ec, nul);
  if (ec == json::error::exponent_overflow) {
    ec = {};
    at = parse(with_small_exponents(text), maximum_depth, ec, nul);
  }
  if (!ec) return Status::ok;
  message = "no JSON that can be kept, at byte " + std::to_string(at) + ": " +
            (nul ? std::string("a string holds a NUL (\\u0000)") : ec.message());
  return Status::json;
}

std::string quote_json(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string quoted;
  quoted.reserve(text.size() + 2);
  quoted += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20) {
      quoted += "\\u00";
      quoted += kDigits[byte >> 4];
      quoted += kDigits[byte & 15];
    } else {
      quoted += c;
    }
  }
  quoted += '"';
  return quoted;
}

}  // namespace nocter::tasks

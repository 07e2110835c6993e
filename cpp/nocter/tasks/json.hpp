// What may be stored as JSON (RFC 8259, in UTF-8). It is checked once, at the boundary, and then kept byte for byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "nocter/base/status.hpp"

namespace nocter::tasks {

// `json` when the text is no JSON, nests deeper than that, or holds what databases cannot keep: a NUL in a string, half a surrogate pair.
// Keys that come twice and numbers of any size are fine. `message` says what is wrong, and at which byte.
Status check_json(std::string_view text, uint32_t maximum_depth, std::string& message);

// The text as a JSON string, quotes included.
std::string quote_json(std::string_view text);

}  // namespace nocter::tasks

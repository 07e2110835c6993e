// What is JSON and what is not: cases with their verdicts, every text of one and two bytes beside a plain reading of RFC 3629, and the exact
// bounds. The boundary decides once, so all stores refuse the same.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nocter/tasks/json.hpp"
#include "support/fixture.hpp"
#include "tasks/json_cases.hpp"

using namespace nocter_tests;
using json_cases::json_texts;
using json_cases::texts_that_are_no_json;
using nocter::Status;
using nocter::tasks::check_json;

namespace {

constexpr uint32_t kDepth = 512;

Status verdict(std::string_view text, uint32_t depth = kDepth) {
  std::string message;
  const Status status = check_json(text, depth, message);
  if (status != Status::ok && message.empty()) BOOST_ERROR("a refusal that does not say why");
  return status;
}

std::string shown(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    constexpr const char* kHex = "0123456789abcdef";
    if (value >= 0x20 && value < 0x7f)
      out += byte;
    else
      (out += "\\x") += {kHex[value >> 4], kHex[value & 15]};
  }
  return out;
}

// How many were looked at: so that an empty list is noticed.
size_t all_are(Status expected, const std::vector<std::string>& texts) {
  for (const std::string& text : texts)
    BOOST_CHECK_MESSAGE(verdict(text) == expected, (expected == Status::ok ? "refused: " : "taken: ") << shown(text));
  return texts.size();
}

std::string quoted(const std::string& inside) { return '"' + inside + '"'; }

// RFC 3629, table 3-7 of the Unicode standard: the shortest form only, no surrogates, nothing above U+10FFFF. And inside a JSON string
// neither a control character nor a bare quote, and no backslash.
bool plain_string(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const auto byte = [&](size_t from) -> unsigned {
      return at + from < bytes.size() ? static_cast<unsigned char>(bytes[at + from]) : 0;
    };
    const auto tail = [&](size_t from, unsigned least = 0x80, unsigned most = 0xbf) {
      return byte(from) >= least && byte(from) <= most;
    };
    const unsigned first = byte(0);
    if (first < 0x80) {
      if (first < 0x20 || first == '"' || first == '\\') return false;
      at += 1;
    } else if (first >= 0xc2 && first <= 0xdf && tail(1)) {
      at += 2;
    } else if (first >= 0xe0 && first <= 0xef && tail(2) &&
               tail(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf)) {
      at += 3;
    } else if (first >= 0xf0 && first <= 0xf4 && tail(2) && tail(3) &&
               tail(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf)) {
      at += 4;
    } else {
      return false;
    }
  }
  return true;
}

std::string nested(size_t depth, const std::string& open, const std::string& inside, const std::string& close) {
  std::string out;
  for (size_t at = 0; at < depth; at++) out += open;
  out += inside;
  for (size_t at = 0; at < depth; at++) out += close;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(dat_02_what_is_json, *label("TSK-24")) {
  size_t seen = all_are(Status::ok, json_texts());
  BOOST_CHECK_GT(seen, 125U);
}

BOOST_AUTO_TEST_CASE(dat_02_what_is_none, *label("TSK-24")) {
  size_t seen = all_are(Status::json, texts_that_are_no_json());
  BOOST_CHECK_GT(seen, 250U);
}

// Nothing is skipped and nothing is put right: each text of one byte and of two, bare and as a string.
BOOST_AUTO_TEST_CASE(dat_01_all_texts_of_one_and_two_bytes, *label("TSK-24")) {
  size_t wrong = 0, strings = 0;
  const auto look = [&](const std::string& bytes) {
    const bool good = plain_string(bytes);
    strings += good ? 1 : 0;
    if ((verdict(quoted(bytes)) == Status::ok) == good) return;
    // Two bytes beginning with a backslash may be an escape.
    if (bytes.size() == 2 && bytes[0] == '\\' &&
        std::string_view("\"\\/bfnrt").find(bytes[1]) != std::string_view::npos)
      return;
    if (wrong++ < 10) BOOST_ERROR("the verdict is wrong for the string of " << shown(bytes));
  };
  for (int first = 0; first < 256; first++) {
    look(std::string(1, static_cast<char>(first)));
    const std::string bare(1, static_cast<char>(first));
    const bool digit = first >= '0' && first <= '9';
    BOOST_CHECK_MESSAGE((verdict(bare) == Status::ok) == digit, "the verdict is wrong for " << shown(bare));
    for (int second = 0; second < 256; second++) {
      const std::string two = bare + static_cast<char>(second);
      look(two);
      const bool blank_behind = std::string_view(" \t\r\n").find(two[1]) != std::string_view::npos;
      const bool blank_before = std::string_view(" \t\r\n").find(two[0]) != std::string_view::npos;
      const bool digit_behind = two[1] >= '0' && two[1] <= '9';
      const bool good = (digit && blank_behind) || (blank_before && digit_behind) ||
                        (digit && first != '0' && digit_behind) || (first == '-' && digit_behind) || two == "[]" ||
                        two == "{}" || two == "\"\"";
      if ((verdict(two) == Status::ok) != good && wrong++ < 10) BOOST_ERROR("the verdict is wrong for " << shown(two));
    }
  }
  BOOST_CHECK_EQUAL(wrong, 0U);
  // 94 of one byte; of two: two of those, or one character that takes both.
  BOOST_CHECK_EQUAL(strings, 94U + 94U * 94U + 30U * 64U);
}

BOOST_AUTO_TEST_CASE(dat_01_texts_of_three_and_four_bytes, *label("TSK-24")) {
  auto random = random_stream(31);
  size_t wrong = 0;
  const auto look = [&](const std::string& bytes) {
    if ((verdict(quoted(bytes)) == Status::ok) != plain_string(bytes) && wrong++ < 10)
      BOOST_ERROR("the verdict is wrong for the string of " << shown(bytes));
  };
  // Around every edge of the encoding, all of them; then drawn ones.
  constexpr int kEdges[] = {0x20, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
                            0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
  for (const int first : kEdges)
    for (const int second : kEdges)
      for (const int third : kEdges) {
        const std::string three = {static_cast<char>(first), static_cast<char>(second), static_cast<char>(third)};
        look(three);
        for (const int fourth : {0x20, 0x7f, 0x80, 0xbf, 0xc0}) look(three + static_cast<char>(fourth));
      }
  for (int times = 0; times < 200'000; times++) {
    std::string bytes;
    const uint64_t drawn = random();
    for (uint64_t at = 0; at < 3 + drawn % 2; at++) {
      char byte = static_cast<char>(drawn >> (8 + 8 * at));
      if (byte == '\\' || byte == '"') byte = 'x';
      // Half of them in the middle of a character, where mistakes are made.
      if (at > 0 && (drawn >> (40 + at) & 1) != 0) byte = static_cast<char>(0x80 | (byte & 0x3f));
      bytes += byte;
    }
    look(bytes);
  }
  BOOST_CHECK_EQUAL(wrong, 0U);
}

// DAT-02, DAT-03: exactly at the bound it is good, one more is too much.
BOOST_AUTO_TEST_CASE(dat_03_exact_depth, *label("TSK-24")) {
  for (const uint32_t depth : {1U, 2U, 32U, 512U, 1000U}) {
    BOOST_CHECK(verdict(nested(depth, "[", "", "]"), depth) == Status::ok);
    BOOST_CHECK(verdict(nested(depth + 1, "[", "", "]"), depth) == Status::json);
    BOOST_CHECK(verdict(nested(depth - 1, "{\"a\":", "{}", "}"), depth) == Status::ok);
    BOOST_CHECK(verdict(nested(depth, "{\"a\":", "{}", "}"), depth) == Status::json);
    // What lies side by side is not deep, nor is what stands in a string.
    std::string wide = "[]";
    for (int at = 0; at < 2'000; at++) wide += ",[]";
    if (depth >= 2) BOOST_CHECK(verdict("[" + wide + "]", depth) == Status::ok);
    BOOST_CHECK(verdict(quoted(std::string(5'000, '[')), depth) == Status::ok);
  }
  // No depth is a stack to run out of.
  BOOST_CHECK(verdict(std::string(1'000'000, '[')) == Status::json);
  BOOST_CHECK(verdict(nested(1'000'000, "{\"a\":", "1", "}")) == Status::json);
}

// Nothing behind the text is read: every beginning of a good one is refused or good by itself, also where the memory ends with it.
BOOST_AUTO_TEST_CASE(dat_02_every_beginning, *label("TSK-24")) {
  const std::string whole =
      "{\"a\":[1,-2.5e+10,true,false,null,\"x\\u00e9\\ud83d\\ude00\xf0\x9f\x98\x80\\\\\"],\"b\":{\"c\":{}}}";
  BOOST_CHECK(verdict(whole) == Status::ok);
  for (size_t length = 0; length < whole.size(); length++) {
    const std::vector<char> exact(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    BOOST_CHECK_MESSAGE(verdict({exact.data(), exact.size()}) == Status::json, "taken: " << whole.substr(0, length));
  }
  BOOST_CHECK(verdict({}) == Status::json);
}

// SEC-03: a refusal does not repeat what it refuses.
BOOST_AUTO_TEST_CASE(sec_03_refusals_keep_secrets, *label("TSK-24")) {
  for (const std::string text : {"{\"password\":\"hunter2\",}", "hunter2", "\"hunter2\\x\"", "[hunter2]"}) {
    std::string message;
    BOOST_CHECK(check_json(text, kDepth, message) == Status::json);
    BOOST_CHECK_MESSAGE(message.find("hunter") == std::string::npos, message);
  }
}

// Whatever is quoted is one JSON string, and the one that was meant.
BOOST_AUTO_TEST_CASE(dat_04_quoted_text_is_json, *label("TSK-24")) {
  using nocter::tasks::quote_json;
  for (const std::string text :
       {"", "a", "\"", "\\", "\\\"", "\n\t\r\b\f", "\x01\x1f\x7f", "\xc3\xa9\xf0\x9f\x98\x80", "</script>"})
    BOOST_CHECK_MESSAGE(verdict(quote_json(text)) == Status::ok, shown(quote_json(text)));
  BOOST_CHECK_EQUAL(quote_json("a\"b\\c"), "\"a\\\"b\\\\c\"");
}

// What is JSON and what is not: cases with their verdicts, every text of one and two bytes beside a plain reading of RFC 3629, and the exact
// bounds. The boundary decides once, so all stores refuse the same.
#define BOOST_TEST_MODULE tasks_json
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nocter/tasks/json.hpp"
#include "support/fixture.hpp"

using namespace nocter_tests;
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
  size_t seen = all_are(Status::ok, {
                                        // One value of each kind, alone and with blanks around it.
                                        "null",
                                        "true",
                                        "false",
                                        "0",
                                        "-0",
                                        "1",
                                        "\"\"",
                                        "[]",
                                        "{}",
                                        " null",
                                        "null ",
                                        "\tnull\n",
                                        "\r\n[]\r\n",
                                        "  {}  ",
                                        "\n\n\n1\n\n\n",
                                        " \t\r\n\"x\" \t\r\n",
                                        "[ ]",
                                        "{ }",
                                        "[\n]",
                                        "{\t}",
                                        // Numbers.
                                        "10",
                                        "-1",
                                        "-10",
                                        "0.0",
                                        "-0.0",
                                        "0.5",
                                        "1.25",
                                        "123456789",
                                        "1e1",
                                        "1E1",
                                        "1e+1",
                                        "1e-1",
                                        "1E+01",
                                        "1e00",
                                        "0e0",
                                        "0E-0",
                                        "-0e-0",
                                        "1.5e300",
                                        "1e400",
                                        "-1e400",
                                        "1e-400",
                                        "1e99999",
                                        "1e-99999",
                                        "123456789012345678901234567890123456789012345678901234567890",
                                        "-9223372036854775808",
                                        "-9223372036854775809",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "18446744073709551615",
                                        "18446744073709551616",
                                        "0.1000000000000000055511151231257827021181583404541015625",
                                        "2.22507385850720113605740979670913197593481954635164564e-308",
                                        "1.7976931348623159e308",
                                        "0." + std::string(1'000, '3'),
                                        std::string(5'000, '9'),
                                        "1e" + std::string(30, '0') + "1",
                                        // Strings.
                                        "\"a\"",
                                        "\"a b\"",
                                        "\"\\\"\"",
                                        "\"\\\\\"",
                                        "\"\\/\"",
                                        "\"/\"",
                                        "\"\\b\\f\\n\\r\\t\"",
                                        "\"\\u0041\"",
                                        "\"\\u00e9\"",
                                        "\"\\u00E9\"",
                                        "\"\\u0001\"",
                                        "\"\\u001f\"",
                                        "\"\\u007f\"",
                                        "\"\\uffff\"",
                                        "\"\\uFFFE\"",
                                        "\"\\ud83d\\ude00\"",
                                        "\"\\uD83D\\uDE00\"",
                                        "\"\\uD800\\uDC00\"",
                                        "\"\\uDBFF\\uDFFF\"",
                                        "\"\\ud7ff\"",
                                        "\"\\ue000\"",
                                        "\"\\\\u0000\"",
                                        "\"\\\\ud800\"",
                                        "\"\\u0022\"",
                                        "\"\\u005c\"",
                                        "\"\x7f\"",
                                        "\"\xc3\xa9\"",
                                        "\"\xe2\x82\xac\"",
                                        "\"\xf0\x9f\x98\x80\"",
                                        "\"\xf4\x8f\xbf\xbf\"",
                                        "\"\xef\xbf\xbf\"",
                                        "\"\xef\xbf\xbe\"",
                                        "\"\xed\x9f\xbf\"",
                                        "\"\xee\x80\x80\"",
                                        "\"\xc2\x80\"",
                                        "\"\xdf\xbf\"",
                                        "\"\xe0\xa0\x80\"",
                                        "\"\xf0\x90\x80\x80\"",
                                        "\"\xe2\x80\xa8\"",
                                        "\"\xe2\x80\xa9\"",
                                        "\"\xef\xbb\xbf\"",
                                        "\"\xe2\x80\xae\"",
                                        "\"a\xcc\x81\"",
                                        quoted(std::string(100'000, 'x')),
                                        "\"'\"",
                                        "\"<script>\"",
                                        "\"/* no comment */\"",
                                        "\"// nor this\"",
                                        "\"%s%n\"",
                                        "\"; drop table\"",
                                        "\"${x}\"",
                                        "\"\\ud83d\\uDE00x\"",
                                        // Arrays and objects.
                                        "[1]",
                                        "[1,2]",
                                        "[ 1 , 2 ]",
                                        "[null,true,false,0,\"\",[],{}]",
                                        "[[]]",
                                        "[[],[]]",
                                        "[{}]",
                                        "[[[[[]]]]]",
                                        "{\"a\":1}",
                                        "{ \"a\" : 1 }",
                                        "{\"a\":1,\"b\":2}",
                                        "{\"a\":{}}",
                                        "{\"a\":[]}",
                                        "{\"\":0}",
                                        "{\"a\":{\"a\":{\"a\":1}}}",
                                        "{\"a\":1,\"a\":2}",
                                        "{\"\":0,\"\":0}",
                                        "{\"\\u0061\":1,\"a\":2}",
                                        "{\"a b\":null}",
                                        "{\"\xc3\xa9\":\"\xc3\xa9\"}",
                                        "{\"\\n\":1}",
                                        "{\"__proto__\":{}}",
                                        "{\"a\":[{\"b\":[{}]}]}",
                                        "[\"a\",\"b\"]",
                                        "[-1,-0.5,1e9]",
                                        "[1 ,2]",
                                        "{\"a\"\n:\n1\n,\n\"b\"\n:\n2\n}",
                                        "[1,\n2,\r3,\t4]",
                                    });
  BOOST_CHECK_GT(seen, 125U);
}

BOOST_AUTO_TEST_CASE(dat_02_what_is_none, *label("TSK-24")) {
  const std::string zero(1, '\0');
  size_t seen = all_are(Status::json, {
                                          // Nothing, or more than one.
                                          "",
                                          " ",
                                          "\n",
                                          "\t \r",
                                          "null null",
                                          "1 2",
                                          "[][]",
                                          "{}{}",
                                          "\"a\"\"b\"",
                                          "1,",
                                          ",1",
                                          "null,",
                                          "[] 1",
                                          "{}x",
                                          "true1",
                                          "1true",
                                          "\"a\" b",
                                          zero,
                                          "1" + zero,
                                          zero + "1",
                                          "[" + zero + "]",
                                          "\"a" + zero + "\"",
                                          // Words.
                                          "nul",
                                          "nulll",
                                          "Null",
                                          "NULL",
                                          "tru",
                                          "True",
                                          "TRUE",
                                          "fals",
                                          "False",
                                          "undefined",
                                          "None",
                                          "NaN",
                                          "nan",
                                          "-NaN",
                                          "Infinity",
                                          "-Infinity",
                                          "inf",
                                          "n",
                                          "t",
                                          "f",
                                          "x",
                                          "truefalse",
                                          "'a'",
                                          "`a`",
                                          "a",
                                          "[nul]",
                                          "{\"a\":tru}",
                                          // Numbers.
                                          "+1",
                                          "+",
                                          "-",
                                          "--1",
                                          "-+1",
                                          "01",
                                          "-01",
                                          "00",
                                          "007",
                                          "1.",
                                          ".5",
                                          "-.5",
                                          ".",
                                          "1..2",
                                          "1.2.3",
                                          "1e",
                                          "1e+",
                                          "1e-",
                                          "1E",
                                          "1ee1",
                                          "1e1.5",
                                          "1e1e1",
                                          "e1",
                                          "0x10",
                                          "0b1",
                                          "0o7",
                                          "1_000",
                                          "1,000",
                                          "1 000",
                                          "- 1",
                                          "1 .5",
                                          "1e 5",
                                          "1.e5",
                                          "1.5.",
                                          "1f",
                                          "1L",
                                          "1n",
                                          "\xef\xbc\x91",
                                          "-a",
                                          "1a",
                                          "0.",
                                          "-0.",
                                          "-",
                                          "[1.]",
                                          "[.5]",
                                          "[-]",
                                          "[01]",
                                          "[1e]",
                                          "$1",
                                          "1%",
                                          // Strings.
                                          "\"",
                                          "\"a",
                                          "a\"",
                                          "\"a\\\"",
                                          "\"\\\"",
                                          "\"\\\\\\\"",
                                          "\"\\a\"",
                                          "\"\\x41\"",
                                          "\"\\0\"",
                                          "\"\\'\"",
                                          "\"\\v\"",
                                          "\"\\e\"",
                                          "\"\\ \"",
                                          "\"\\\n\"",
                                          "\"\\",
                                          "\"\\u\"",
                                          "\"\\u0\"",
                                          "\"\\u00\"",
                                          "\"\\u004\"",
                                          "\"\\u004",
                                          "\"\\u00g1\"",
                                          "\"\\u+041\"",
                                          "\"\\u 041\"",
                                          "\"\\U0041\"",
                                          "\"\\u{41}\"",
                                          "\"\n\"",
                                          "\"\r\"",
                                          "\"\t\"",
                                          "\"\x01\"",
                                          "\"\x1f\"",
                                          "\"a\nb\"",
                                          "\"\\N\"",
                                          "\"\\T\"",
                                          "\"\\u-001\"",
                                          "\"\\u\xef\xbc\x90\x30\x30\x30\"",
                                          // What databases and other readers cannot hold.
                                          "\"\\u0000\"",
                                          "\"a\\u0000b\"",
                                          "{\"\\u0000\":1}",
                                          "[\"\\u0000\"]",
                                          "\"\\ud800\"",
                                          "\"\\udbff\"",
                                          "\"\\udc00\"",
                                          "\"\\udfff\"",
                                          "\"\\uD800x\"",
                                          "\"\\uD800\\n\"",
                                          "\"\\uD800\\u0041\"",
                                          "\"\\uD800\\uD800\"",
                                          "\"\\uD800\\uE000\"",
                                          "\"\\uDC00\\uD800\"",
                                          "\"\\uD83D\\uDE00\\uDE00\"",
                                          "\"\\uD800\\uDBFF\"",
                                          "\"\\ud83d\\\"",
                                          "\"\\ud83d\\u\"",
                                          "\"\\ud83d\\ude0\"",
                                          "{\"\\ud800\":1}",
                                          "\"\\uD83D\"",
                                          "[\"\\uDE00\"]",
                                          // Bytes that are no UTF-8, inside a string and outside.
                                          "\"\x80\"",
                                          "\"\xbf\"",
                                          "\"\xc0\x80\"",
                                          "\"\xc1\xbf\"",
                                          "\"\xc3\"",
                                          "\"\xc3(\"",
                                          "\"\xe2\x82\"",
                                          "\"\xe2(\xa1\"",
                                          "\"\xe0\x80\x80\"",
                                          "\"\xe0\x9f\xbf\"",
                                          "\"\xed\xa0\x80\"",
                                          "\"\xed\xbf\xbf\"",
                                          "\"\xed\xa0\xbd\xed\xb8\x80\"",
                                          "\"\xf0\x80\x80\x80\"",
                                          "\"\xf0\x8f\xbf\xbf\"",
                                          "\"\xf0\x9f\x98\"",
                                          "\"\xf4\x90\x80\x80\"",
                                          "\"\xf5\x80\x80\x80\"",
                                          "\"\xf8\x88\x80\x80\x80\"",
                                          "\"\xfe\"",
                                          "\"\xff\"",
                                          "\"\xff\xfe\"",
                                          "{\"\xff\":1}",
                                          "\xff",
                                          "\x80",
                                          "[\xc3\xa9]",
                                          "\xc2\xa0"
                                          "1",
                                          "1\xc2\xa0",
                                          "\xe2\x80\xa8"
                                          "1",
                                          "\xef\xbb\xbf{}",
                                          "\xef\xbb\xbf",
                                          "\xfe\xff\x00{",
                                          "{}\xef\xbb\xbf",
                                          // Arrays.
                                          "[",
                                          "]",
                                          "[1",
                                          "1]",
                                          "[1,",
                                          "[1,]",
                                          "[,1]",
                                          "[,]",
                                          "[1,,2]",
                                          "[1 2]",
                                          "[1;2]",
                                          "[1:2]",
                                          "[1}",
                                          "[[]",
                                          "[]]",
                                          "[[",
                                          "(1)",
                                          "<1>",
                                          "[1,2",
                                          "[\"a\"",
                                          "[\"a\",",
                                          "[\"a",
                                          "[\"a\" \"b\"]",
                                          "[...]",
                                          "[1,\"\"",
                                          "[a]",
                                          "[']",
                                          // Objects.
                                          "{",
                                          "}",
                                          "{\"a\"}",
                                          "{\"a\":}",
                                          "{\"a\":1",
                                          "{\"a\":1,",
                                          "{\"a\":1,}",
                                          "{,}",
                                          "{,\"a\":1}",
                                          "{:1}",
                                          "{\"a\" 1}",
                                          "{\"a\",1}",
                                          "{\"a\"::1}",
                                          "{\"a\":1:2}",
                                          "{\"a\":1 \"b\":2}",
                                          "{\"a\":1;\"b\":2}",
                                          "{a:1}",
                                          "{'a':1}",
                                          "{1:1}",
                                          "{null:1}",
                                          "{[]:1}",
                                          "{{}:1}",
                                          "{\"a\":1]",
                                          "{\"a\":1}}",
                                          "{\"a\"=1}",
                                          "{\"a\":1,,\"b\":2}",
                                          "{\"a",
                                          "{\"a\"",
                                          "{\"a\":",
                                          "{\"a\":{}",
                                          "{\"a\":x}",
                                          "{\"a\":'b'}",
                                          "{true}",
                                          "{[}]",
                                          // Remarks, blanks that are none.
                                          "// remark\n1",
                                          "1 // remark",
                                          "/* remark */1",
                                          "1/**/",
                                          "# remark\n1",
                                          "[1/*,2*/]",
                                          "{/**/}",
                                          "\v1",
                                          "\f1",
                                          "1\f",
                                          "1\x1f",
                                          "\xc2\x85"
                                          "1",
                                          "<!-- -->1",
                                          "1\x7f",
                                          "\x08"
                                          "1",
                                          "[1,\v2]",
                                      });
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

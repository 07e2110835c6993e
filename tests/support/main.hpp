// What a program of Boost.Test may tell the main function that all of them share (main.cpp): one object each, in a file of its own.
#pragma once

#include <boost/test/unit_test.hpp>

#include <optional>

namespace nocter_tests {

// Test cases that are made when the program runs.
class MadeAtRunTime {
 public:
  using Add = void (*)(boost::unit_test::test_suite& all);
  explicit MadeAtRunTime(Add add) { add_ = add; }
  static void add_to(boost::unit_test::test_suite& all) {
    if (add_ != nullptr) add_(all);
  }

 private:
  static inline Add add_ = nullptr;
};

// What the program does, instead of testing, when one of its own tests has started it anew; nothing when it is to test.
class OtherRole {
 public:
  using Play = std::optional<int> (*)(int count, char** arguments);  // the exit status
  explicit OtherRole(Play role) { play_ = role; }
  static std::optional<int> play(int count, char** arguments) {
    return play_ != nullptr ? play_(count, arguments) : std::nullopt;
  }

 private:
  static inline Play play_ = nullptr;
};

}  // namespace nocter_tests

// Statuses, messages, version, text. GEN-02, and the small functions of base.h.
#include <nocter.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <string>

#include "support/fixture.hpp"
#include "support/service.hpp"

using namespace nocter_tests;

BOOST_FIXTURE_TEST_SUITE(base_suite, EveryTest)

BOOST_AUTO_TEST_CASE(gen_02_every_status_has_its_name_and_no_other_number_has_one, *label("GEN-02")) {
  const std::map<nocter_status, std::string> names = {{NOCTER_OK, "NOCTER_OK"},
                                                      {NOCTER_EMPTY, "NOCTER_EMPTY"},
                                                      {NOCTER_PENDING, "NOCTER_PENDING"},
                                                      {NOCTER_SATURATED, "NOCTER_SATURATED"},
                                                      {NOCTER_COALESCED, "NOCTER_COALESCED"},
                                                      {NOCTER_WORKER_LOST, "NOCTER_WORKER_LOST"},
                                                      {NOCTER_TIMEOUT, "NOCTER_TIMEOUT"},
                                                      {NOCTER_INTERRUPTED, "NOCTER_INTERRUPTED"},
                                                      {NOCTER_CLOSED, "NOCTER_CLOSED"},
                                                      {NOCTER_EXISTS, "NOCTER_EXISTS"},
                                                      {NOCTER_HELD, "NOCTER_HELD"},
                                                      {NOCTER_CANCELLED, "NOCTER_CANCELLED"},
                                                      {NOCTER_E_ARGUMENT, "NOCTER_E_ARGUMENT"},
                                                      {NOCTER_E_FOREIGN, "NOCTER_E_FOREIGN"},
                                                      {NOCTER_E_UNKNOWN, "NOCTER_E_UNKNOWN"},
                                                      {NOCTER_E_STATE, "NOCTER_E_STATE"},
                                                      {NOCTER_E_REENTRANT, "NOCTER_E_REENTRANT"},
                                                      {NOCTER_E_MEMORY, "NOCTER_E_MEMORY"},
                                                      {NOCTER_E_JSON, "NOCTER_E_JSON"},
                                                      {NOCTER_E_LIMIT, "NOCTER_E_LIMIT"},
                                                      {NOCTER_E_STORE, "NOCTER_E_STORE"},
                                                      {NOCTER_E_UNAVAILABLE, "NOCTER_E_UNAVAILABLE"},
                                                      {NOCTER_E_LEASE_LOST, "NOCTER_E_LEASE_LOST"},
                                                      {NOCTER_E_VERSION, "NOCTER_E_VERSION"},
                                                      {NOCTER_E_FORKED, "NOCTER_E_FORKED"},
                                                      {NOCTER_E_WOULD_DEADLOCK, "NOCTER_E_WOULD_DEADLOCK"},
                                                      {NOCTER_E_INTERNAL, "NOCTER_E_INTERNAL"}};
  BOOST_CHECK_EQUAL(names.size(), 27u);
  for (int32_t number = -100; number <= 100; number++) {
    const auto known = names.find(number);
    BOOST_CHECK_EQUAL(nocter_status_name(number), known != names.end() ? known->second : "NOCTER_?");
  }
  for (const int32_t number : {INT32_MIN, INT32_MAX}) BOOST_CHECK_EQUAL(nocter_status_name(number), "NOCTER_?");
}

BOOST_AUTO_TEST_CASE(gen_02_the_message_is_set_by_negative_statuses_and_by_nothing_else, *label("GEN-02")) {
  Thread fresh([] {
    HOLDS(std::string(nocter_error_message()).empty());
    Service service({.maximum_jobs = 1, .workers = 1});
    // Outcomes leave it alone.
    HOLDS(try_claim(service).status == NOCTER_EMPTY);
    accept(service, 1);
    refuse(service, NOCTER_SATURATED);
    HOLDS(std::string(nocter_error_message()).empty());
    HOLDS(take(service, {0, 0}).status == NOCTER_E_UNKNOWN);
    const std::string unknown = nocter_error_message();
    HOLDS(!unknown.empty());
    HOLDS(nocter_signal_create(nullptr) == NOCTER_E_ARGUMENT);
    HOLDS(std::string(nocter_error_message()) != unknown);
  });
}

BOOST_AUTO_TEST_CASE(gen_02_each_thread_has_its_own_message, *label("GEN-02")) {
  BOOST_CHECK_EQUAL(nocter_signal_create(nullptr), NOCTER_E_ARGUMENT);
  const std::string mine = nocter_error_message();
  BOOST_CHECK(!mine.empty());
  {
    Thread other([] {
      HOLDS(std::string(nocter_error_message()).empty());
      HOLDS(nocter_interrupt_create(nullptr) == NOCTER_E_ARGUMENT);
    });
  }
  BOOST_CHECK_EQUAL(nocter_error_message(), mine);
}

BOOST_AUTO_TEST_CASE(gen_02_the_version_is_that_of_the_headers, *label("GEN-02")) {
  const uint32_t number = nocter_version_number();
  BOOST_CHECK_EQUAL(number, uint32_t{NOCTER_VERSION_NUMBER});
  const std::string text =
      std::to_string(number >> 16) + "." + std::to_string((number >> 8) & 255) + "." + std::to_string(number & 255);
  BOOST_CHECK_EQUAL(nocter_version(), text);
}

BOOST_AUTO_TEST_CASE(gen_02_text_of_a_string_is_a_view_of_it, *label("GEN-02")) {
  const char* const string = "text";
  const nocter_text text = nocter_text_of(string);
  BOOST_CHECK(text.data == string);
  BOOST_CHECK_EQUAL(text.size, 4u);
  BOOST_CHECK_EQUAL(nocter_text_of("").size, 0u);
  BOOST_CHECK_EQUAL(nocter_text_of(nullptr).size, 0u);
}

// What the main function of all these programs watches over: see support/main.cpp.
BOOST_AUTO_TEST_CASE(a_check_by_another_thread_ends_the_program) {
  int ends[2];
  BOOST_REQUIRE_EQUAL(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    std::thread([] { BOOST_CHECK(true); }).join();
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char byte = 0;
  while (read(ends[0], &byte, 1) == 1) said += byte;
  close(ends[0]);
  int status = 0;
  BOOST_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
  BOOST_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  BOOST_CHECK_NE(said.find("another thread"), std::string::npos);
  BOOST_CHECK_NE(said.find("base_suite/a_check_by_another_thread_ends_the_program"), std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

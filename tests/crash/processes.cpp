#include "crash/processes.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

namespace nocter_tests {

namespace {
// Nothing that is waited for here takes longer, on however slow a machine: a process that was forgotten ends by itself.
constexpr unsigned kLimitSeconds = 250;
}  // namespace

Process::Process(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  int from[2], to[2];
  if (pipe(from) != 0 || pipe(to) != 0) throw std::runtime_error("no pipe");
  child_ = fork();
  if (child_ == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    for (const int descriptor : {from[0], from[1], to[0], to[1]}) close(descriptor);
    for (const std::string& one : environment) putenv(const_cast<char*>(one.c_str()));
    std::vector<char*> words = {const_cast<char*>("processes")};
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    alarm(kLimitSeconds);
    execv("/proc/self/exe", words.data());
    _exit(127);
  }
  close(from[1]);
  close(to[0]);
  from_ = from[0];
  to_ = to[1];
}

Process::~Process() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  close(from_);
  close(to_);
}

std::string Process::hear() const {
  std::string line;
  for (char c = 0; read(from_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

void Process::tell(const std::string& line) const {
  const std::string whole = line + "\n";
  if (write(to_, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size())) throw std::runtime_error("no pipe");
}

void Process::stop() const {
  kill(child_, SIGSTOP);
  int status = 0;
  while (waitpid(child_, &status, WUNTRACED) == child_ && !WIFSTOPPED(status)) continue;
}

void Process::go_on() const { kill(child_, SIGCONT); }

int Process::end() {
  int status = 0;
  waitpid(child_, &status, 0);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void say(const std::string& line) { std::cout << line << std::endl; }

std::string heard() {
  std::string line;
  std::getline(std::cin, line);
  return line;
}

}  // namespace nocter_tests

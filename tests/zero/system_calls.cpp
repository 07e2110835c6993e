#include "zero/system_calls.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>

namespace zero {

namespace {

// Shared with the child, which must not make a system call to report.
struct Report {
  volatile uint64_t count;
  volatile int32_t first;
  volatile bool filtered;
};
Report* report;

void on_system_call(int, siginfo_t* info, void* context) {
  if (report->count == 0) report->first = info->si_syscall;
  report->count = report->count + 1;
#if defined(__x86_64__)
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#elif defined(__aarch64__)
  static_cast<ucontext_t*>(context)->uc_mcontext.regs[0] = static_cast<uint64_t>(-ENOSYS);
#else
  static_cast<void>(context);
#endif
}

bool install_filter() {
  struct sigaction action = {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  // All but the return from the handler and the end of the process.
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {sizeof code / sizeof code[0], code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

SystemCalls system_calls_of(const std::function<void()>& prepare, const std::function<void()>& measured) {
  void* const shared = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return {};
  report = static_cast<Report*>(shared);
  report->first = -1;
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    report->filtered = install_filter();
    if (report->filtered) measured();
    syscall(SYS_exit_group, 0);  // a sanitizer's _exit would look for leaks first
  }
  int status = -1;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  const SystemCalls result = {ended && report->filtered, report->count, report->first};
  munmap(shared, sizeof(Report));
  report = nullptr;
  return result;
}

}  // namespace zero

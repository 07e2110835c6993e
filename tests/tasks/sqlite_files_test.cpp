// The files: made for their owner alone, watched, and refused where they cannot be used safely. T-PERM.
#include <dlfcn.h>
#include <nocter.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "nocter/stores/sqlite_file.hpp"
#include "support/fixture.hpp"
#include "tasks/sqlite_support.hpp"

using namespace nocter_tests;

BOOST_FIXTURE_TEST_SUITE(sqlite_files, EveryTest)

BOOST_AUTO_TEST_CASE(sec_04_t_perm_all_files_are_the_owners_whatever_the_umask, *label("SEC-04")) {
  for (const mode_t mask : {0U, 022U, 077U}) {
    const Folder folder;
    const mode_t before = umask(mask);
    Hand hand(folder / "tasks.db");
    const int64_t node = hand.join("somebody");
    BOOST_TEST((hand.submit(tasks::make_task_id()) == Status::ok));
    umask(before);
    BOOST_TEST(node != 0);
    for (const char* file : {"tasks.db", "tasks.db-wal", "tasks.db-shm", "tasks.db.nocter/somebody"}) {
      BOOST_TEST(mode_of(folder / file) == 0600U, file << " under umask " << mask);
    }
    BOOST_TEST(mode_of(folder / "tasks.db.nocter") == 0700U);
  }
}

BOOST_AUTO_TEST_CASE(sec_04_t_perm_links_and_other_things_are_refused, *label("SEC-04")) {
  const Folder folder;
  const auto refused = [&](const std::string& name, const std::string& word) {
    const auto [status, message] = refusal(folder / name);
    BOOST_TEST((status == Status::store), name << ": " << message);
    BOOST_TEST(message.find(word) != std::string::npos, message);
  };
  Hand(folder / "real.db").close();
  const std::string content = file_content(folder / "real.db");
  std::filesystem::create_symlink(folder / "real.db", folder / "link.db");
  refused("link.db", "symbolic link");
  std::filesystem::create_symlink(folder / "nowhere.db", folder / "dangling.db");
  refused("dangling.db", "symbolic link");
  BOOST_TEST(!std::filesystem::exists(folder / "nowhere.db"));
  std::filesystem::create_hard_link(folder / "real.db", folder / "other.db");
  refused("other.db", "hard links");
  refused("real.db", "hard links");
  std::filesystem::remove(folder / "other.db");
  std::filesystem::create_directory(folder / "folder.db");
  refused("folder.db", "not a file");
  BOOST_REQUIRE_EQUAL(mkfifo((folder / "pipe.db").c_str(), 0600), 0);
  refused("pipe.db", "not a file");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "real.db-wal");
  refused("real.db", "symbolic link");
  BOOST_TEST(!std::filesystem::exists(folder / "elsewhere"));
  std::filesystem::remove(folder / "real.db-wal");
  BOOST_TEST(file_content(folder / "real.db") == content);
  refused("no/such/folder.db", "folder");
  BOOST_TEST((refusal("").first == Status::argument));
  BOOST_TEST((refusal(folder.path() + "/").first == Status::argument));
  BOOST_TEST((refusal(std::string("a\0b", 3)).first == Status::argument));
}

// A folder may be reached through a link: only what it leads to counts.
BOOST_AUTO_TEST_CASE(sec_04_a_folder_may_be_a_link, *label("SEC-04")) {
  const Folder folder;
  std::filesystem::create_directory(folder / "real");
  std::filesystem::create_directory_symlink(folder / "real", folder / "link");
  Hand through(folder / "link/tasks.db");
  const tasks::TaskId id = tasks::make_task_id();
  BOOST_TEST((through.submit(id) == Status::ok));
  Hand direct(folder / "real/tasks.db");
  BOOST_TEST((direct.record(id).row.id == id));
}

BOOST_AUTO_TEST_CASE(sec_04_what_others_may_do_is_told, *label("SEC-04")) {
  const Folder folder;
  Hand(folder / "tasks.db").close();
  BOOST_TEST(stores::sqlite_warnings(folder / "tasks.db").empty());
  chmod((folder / "tasks.db").c_str(), 0644);
  BOOST_REQUIRE_EQUAL(stores::sqlite_warnings(folder / "tasks.db").size(), 1U);
  chmod(folder.path().c_str(), 0777);
  BOOST_TEST(stores::sqlite_warnings(folder / "tasks.db").size() == 2U);
  chmod(folder.path().c_str(), 01777);
  BOOST_TEST(stores::sqlite_warnings(folder / "tasks.db").size() == 1U);
  BOOST_TEST((refusal(folder / "tasks.db").first == Status::ok));
}

// Who opens it hears of it, and a name in it cannot play with the terminal that shows the log.
BOOST_AUTO_TEST_CASE(sec_04_sec_11_the_log_tells_what_others_may_do, *label("SEC-04") * label("SEC-11")) {
  const Folder folder;
  const std::string path = folder / "with\x1b[31m colour.db";
  Hand(path).close();
  chmod(path.c_str(), 0644);
  std::vector<std::pair<int32_t, std::string>> lines;
  nocter_tasks_options options = NOCTER_TASKS_OPTIONS_INIT;
  options.log_user = &lines;
  options.log = [](void* user, int32_t level, nocter_text line) {
    static_cast<decltype(lines)*>(user)->emplace_back(level, std::string(line.data, line.size));
  };
  nocter_tasks* tasks = nullptr;
  BOOST_REQUIRE_EQUAL(nocter_tasks_open(nocter_text_of(("sqlite:" + path).c_str()), &options, &tasks), NOCTER_OK);
  nocter_tasks_close(tasks);
  size_t warnings = 0;
  for (const auto& [level, line] : lines) {
    BOOST_TEST(line.find('\x1b') == std::string::npos);
    const bool told = line.find("\\x1b[31m colour.db: others than its owner have access") != std::string::npos;
    if (level == NOCTER_LOG_WARNING && told) warnings++;
  }
  BOOST_TEST(warnings == 1U);
}

BOOST_AUTO_TEST_CASE(sec_06_a_path_is_never_a_uri, *label("SEC-06")) {
  const Folder folder;
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  for (const char* name : {"file:a.db?mode=memory", "file:b.db?vfs=unix-none", ":memory:", "file::memory:?cache=shared",
                           "a b%41.db", "'; DROP TABLE task; --", "caf\xc3\xa9.db"}) {
    Hand hand{std::string(name)};
    BOOST_TEST((hand.submit(tasks::make_task_id()) == Status::ok), name);
    BOOST_TEST(mode_of(folder / name) == 0600U, name);
  }
  std::filesystem::current_path(before);
}

BOOST_AUTO_TEST_CASE(dur_01_a_file_taken_away_is_noticed, *label("DUR-01")) {
  stores::SqliteTuning tuning;
  tuning.look_after_ms = 0;
  enum class How { deleted, moved, replaced, emptied_name };
  for (const How how : {How::deleted, How::moved, How::replaced}) {
    const Folder folder;
    Hand hand(folder / "tasks.db", {}, tuning);
    const tasks::TaskId id = tasks::make_task_id();
    BOOST_REQUIRE((hand.submit(id) == Status::ok));
    if (how == How::replaced) Hand(folder / "other.db").close();
    if (how == How::deleted) std::filesystem::remove(folder / "tasks.db");
    if (how == How::moved) std::filesystem::rename(folder / "tasks.db", folder / "moved.db");
    if (how == How::replaced) std::filesystem::rename(folder / "other.db", folder / "tasks.db");
    BOOST_TEST((hand.submit(tasks::make_task_id()) == Status::store));
    BOOST_TEST(hand.message.find("deleted, moved or replaced") != std::string::npos, hand.message);
    hand.record(id);
    BOOST_TEST(hand.message.find("deleted, moved or replaced") != std::string::npos, hand.message);
    if (how != How::moved) continue;
    std::filesystem::rename(folder / "moved.db", folder / "tasks.db");
    BOOST_TEST((hand.submit(tasks::make_task_id()) == Status::ok), "back again, it works on: " << hand.message);
    BOOST_TEST((hand.record(id).row.id == id));
  }
}

BOOST_AUTO_TEST_CASE(sec_04_network_file_systems_are_known) {
  for (const int64_t kind : {0x6969LL, 0xff534d42LL, -11317950LL /* the same, sign-extended */, 0x01021997LL}) {
    BOOST_TEST(stores::on_network(kind), kind);
  }
  for (const int64_t kind : {0xef53LL, 0x58465342LL, 0x9123683eLL, 0x01021994LL})
    BOOST_TEST(!stores::on_network(kind), kind);
}

BOOST_AUTO_TEST_CASE(dur_08_two_copies_of_sqlite_are_refused, *label("DUR-08")) {
  const std::string maps =
      "7f00-7f01 r-xp 00000000 fe:00 1 /usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6\n"
      "7f02-7f03 r--p 00000000 fe:00 1 /usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6\n"
      "7f04-7f05 r-xp 00000000 fe:00 2 /usr/lib/python3/_sqlite3.so\n7f06-7f07 rw-p 00000000 00:00 0 [heap]\n";
  const std::string ours = "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0.8.6", other = "/opt/other/libsqlite3.so";
  BOOST_TEST(stores::second_sqlite(maps, ours).empty());
  BOOST_TEST(stores::second_sqlite(maps + "7f08-7f09 r-xp 00000000 fe:00 3 " + other + "\n", ours) == other);
  BOOST_TEST(stores::second_sqlite(maps, "/usr/bin/host") == ours);

  // And in earnest, in a child, since a library seldom leaves a process again.
  const Folder folder;
  Dl_info info = {};
  BOOST_REQUIRE(dladdr(reinterpret_cast<const void*>(&sqlite3_libversion), &info) != 0);
  std::filesystem::copy_file(std::filesystem::canonical(info.dli_fname), folder / "libsqlite3-other.so");
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    if (dlopen((folder / "libsqlite3-other.so").c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) _exit(3);
    const auto [status, message] = refusal(folder / "tasks.db");
    _exit(status == Status::store && message.find("two copies of SQLite") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  BOOST_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0), status);
}

BOOST_AUTO_TEST_CASE(gen_11_a_forked_child_touches_nothing, *label("GEN-11")) {
  const Folder folder;
  Hand hand(folder / "tasks.db");
  const tasks::TaskId id = tasks::make_task_id();
  BOOST_REQUIRE(hand.join("parent") != 0);
  BOOST_REQUIRE((hand.submit(id) == Status::ok));
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    int wrong = hand.submit(tasks::make_task_id()) == Status::forked ? 0 : 1;
    tasks::Record record;
    if (hand.store().get(id, record).status != Status::forked) wrong += 2;
    hand.close();  // drops no lock of the parent's
    Hand own(folder / "tasks.db");
    if (own.submit(tasks::make_task_id()) != Status::ok || own.record(id).row.id != id) wrong += 4;
    if (!own.store().dead_nodes().empty()) wrong += 8;
    own.close();
    _exit(wrong);
  }
  int status = 0;
  BOOST_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0), status);
  BOOST_TEST((hand.submit(tasks::make_task_id()) == Status::ok), hand.message);
  BOOST_TEST(hand.counts().tasks == 3U);
}

BOOST_AUTO_TEST_SUITE_END()

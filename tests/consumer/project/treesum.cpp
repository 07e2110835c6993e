// treesum DIR in C++, with nocter.hpp: the same lines as the other languages' for a tree without problems. It reads whole files
// and knows no options: what a user of the C++ layer writes in an afternoon.
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nocter.hpp>
#include <string>
#include <utility>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr unsigned kWorkers = 2, kJobs = 8;

struct File {
  fs::path path;
  std::string name;  // below DIR
};
struct Sum {
  std::string name;
  std::uint32_t crc;
  std::uint64_t size;
};
using Service = nocter::blocking<File, Sum>;

// What it throws would stop at the library, and the waiter be told that the worker was lost.
std::unique_ptr<Sum> sum_of(std::unique_ptr<File> file) {
  std::ifstream stream(file->path, std::ios::binary);
  stream.exceptions(std::ios::badbit);
  const std::string content((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  return std::make_unique<Sum>(Sum{file->name, static_cast<std::uint32_t>(crc), content.size()});
}

std::vector<std::string> names_below(const fs::path& root) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.is_regular_file()) names.push_back(entry.path().lexically_relative(root).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Printer {
 public:
  explicit Printer(Service& service) : service_(service) {}

  void add(nocter::job_id id) { waiting_.push_back(id); }
  bool full() const { return waiting_.size() == kJobs; }
  bool empty() const { return waiting_.empty(); }
  void print_oldest() {
    const auto sum = service_.take(waiting_.front()).value();
    waiting_.pop_front();
    std::printf("%08x %llu %s\n", sum->crc, static_cast<unsigned long long>(sum->size), sum->name.c_str());
    files_++;
    bytes_ += sum->size;
  }
  void print_end() const { std::fprintf(stderr, "treesum: %llu files, %llu bytes, 0 problems\n", files_, bytes_); }

 private:
  Service& service_;
  std::deque<nocter::job_id> waiting_;
  unsigned long long files_ = 0, bytes_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  const fs::path root = argv[1];
  auto service = Service::create({kJobs, kWorkers}).value();
  auto threads = service.serve(sum_of).value();
  Printer printer(service);
  for (const std::string& name : names_below(root)) {
    if (printer.full()) printer.print_oldest();
    auto file = std::make_unique<File>(File{root / name, name});
    printer.add(service.submit(std::move(file), std::chrono::seconds(60)).value());
  }
  while (!printer.empty()) printer.print_oldest();
  printer.print_end();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "treesum: %s\n", error.what());
  return 2;
}

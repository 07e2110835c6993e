#include "sched/program.hpp"

int main(int argc, char** argv) { return sched::program(argc, argv, {}); }

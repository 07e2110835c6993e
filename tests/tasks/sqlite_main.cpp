// The SQLite store beside the rules that all stores share (conformance): its files, what others put there, disks that fail, power that goes,
// processes that die.
#define BOOST_TEST_MODULE sqlite_store
#include "support/fixture.hpp"

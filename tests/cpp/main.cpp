// The C++ layer promises BND-05; what the core promises is proved elsewhere, here only that it arrives.
#define BOOST_TEST_MODULE cpp
#include <boost/test/unit_test.hpp>

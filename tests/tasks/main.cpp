#define BOOST_TEST_MODULE tasks_conformance
#include <nocter.h>

#include "support/fixture.hpp"

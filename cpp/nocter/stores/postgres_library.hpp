// libpq, loaded when the first PostgreSQL store is opened: a program that opens none needs none, and one that brings a libpq of its own
// (as some database drivers do) keeps it apart from this one.
#pragma once

#include <libpq-fe.h>

namespace nocter::stores::postgres {

// clang-format off
#define NOCTER_LIBPQ(each) \
  each(PQclear) each(PQcmdTuples) each(PQconnectPoll) each(PQconnectStartParams) each(PQconninfoFree) each(PQconninfoParse) \
  each(PQconsumeInput) each(PQenterPipelineMode) each(PQerrorMessage) each(PQfinish) each(PQflush) each(PQfreemem) \
  each(PQbackendPID) each(PQgetResult) each(PQgetlength) each(PQgetvalue) each(PQisBusy) each(PQnotifies) each(PQntuples) \
  each(PQparameterStatus) each(PQpipelineSync) each(PQresultErrorField) each(PQresultStatus) each(PQsendFlushRequest) \
  each(PQsendPrepare) each(PQsendQueryParams) each(PQsendQueryPrepared) each(PQserverVersion) each(PQsetNoticeReceiver) \
  each(PQsetnonblocking) each(PQsocket) each(PQstatus)
// clang-format on

struct Libpq {
#define NOCTER_LIBPQ_MEMBER(function) decltype(&::function) function = nullptr;
  NOCTER_LIBPQ(NOCTER_LIBPQ_MEMBER)
#undef NOCTER_LIBPQ_MEMBER
};

// Throws tasks::StoreError when there is no libpq, or one older than 14. It stays loaded.
const Libpq& libpq();

}  // namespace nocter::stores::postgres

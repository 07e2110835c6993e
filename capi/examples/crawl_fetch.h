/*
 * Getting one page: libcurl brings it, libxml2 finds the links while it comes. No page is ever in memory as a whole.
 */
#ifndef CRAWL_FETCH_H
#define CRAWL_FETCH_H

#include <libxml/HTMLparser.h>

#include "crawl_url.h"

#define MAXIMUM_PAGE (64u << 20)
#define MAXIMUM_LINKS 100000u
#define MAXIMUM_LINK_BYTES (8u << 20)
#define LOOK_MS 50 /* how often a transfer looks whether it is to stop */

/* How a fetch ended. */
enum fetched { FETCHED, BROKEN, UNREACHABLE, STOPPED };

/* One page on its way. */
struct transfer {
  CURL *easy;
  const char *url;
  char *base; /* what its links are relative to, once <base> has said so */
  htmlParserCtxtPtr parser;
  bool begun, too_large, too_many;
  size_t link_bytes;
  struct found *found;
};

/* What a worker keeps from page to page: its connections. */
struct fetcher {
  CURLM *multi;
  CURL *easy;
  long timeout_s;
};

/* ---- Links ----------------------------------------------------------------------------------------------------- */

static void add_link(struct transfer *transfer, const char *reference) {
  struct strings *links = &transfer->found->links;
  char *link = resolve(transfer->base != NULL ? transfer->base : transfer->url, reference);
  if (link == NULL || !same_site(transfer->url, link) || strcmp(transfer->url, link) == 0) {
    free(link);
    return;
  }
  add_string(links, link);
  transfer->link_bytes += strlen(link) + 3;
  if (links->count < 2 * MAXIMUM_LINKS && transfer->link_bytes < 2 * MAXIMUM_LINK_BYTES) return;
  sort_and_unite(links);
  transfer->link_bytes = 0;
  for (size_t i = 0; i < links->count; i++) transfer->link_bytes += strlen(links->items[i]) + 3;
  transfer->too_many = links->count > MAXIMUM_LINKS || transfer->link_bytes > MAXIMUM_LINK_BYTES;
}

/* libxml2 calls it for every tag that opens; names are in small letters, values without entities. */
static void on_tag(void *user, const xmlChar *name, const xmlChar **attributes) {
  struct transfer *transfer = user;
  const bool is_base = strcmp((const char *)name, "base") == 0;
  if (attributes == NULL || transfer->too_many) return;
  if (!is_base && strcmp((const char *)name, "a") != 0 && strcmp((const char *)name, "area") != 0) return;
  for (; attributes[0] != NULL; attributes += 2) {
    if (strcmp((const char *)attributes[0], "href") != 0 || attributes[1] == NULL) continue;
    if (!is_base) {
      add_link(transfer, (const char *)attributes[1]);
    } else if (transfer->base == NULL) {
      transfer->base = resolve(transfer->url, (const char *)attributes[1]);
    }
  }
}

/* ---- Content --------------------------------------------------------------------------------------------------- */

/* What a field of the answer's head says; empty when it is not there. */
static const char *field(CURL *easy, const char *name) {
  struct curl_header *header = NULL;
  return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK ? header->value : "";
}

static bool is_html(const char *type) {
  const size_t size = strcspn(type, "; \t");
  return (size == 9 && strncasecmp(type, "text/html", size) == 0) ||
         (size == 21 && strncasecmp(type, "application/xhtml+xml", size) == 0);
}

/* What the head says, or nothing: then the page itself may. */
static xmlCharEncoding encoding_of(const char *type) {
  char name[32] = "";
  const char *charset = strcasestr(type, "charset=");
  if (charset == NULL) return XML_CHAR_ENCODING_NONE;
  charset += strlen("charset=");
  charset += *charset == '"';
  snprintf(name, sizeof name, "%.*s", (int)strcspn(charset, "\"; \t"), charset);
  const xmlCharEncoding encoding = xmlParseCharEncoding(name);
  return encoding == XML_CHAR_ENCODING_ERROR ? XML_CHAR_ENCODING_NONE : encoding;
}

static long status_of(CURL *easy) {
  long status = 0;
  return curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK ? status : 0;
}

/* Whether what follows the head is to be read: only pages are. */
static bool begin(struct transfer *transfer) {
  const long status = status_of(transfer->easy);
  const char *type = field(transfer->easy, "Content-Type");
  transfer->begun = true;
  if (status < 200 || status > 299) return false;
  transfer->found->kind = is_html(type) ? KIND_PAGE : KIND_FILE;
  if (transfer->found->kind == KIND_FILE) return false;
  htmlSAXHandler handler;
  memset(&handler, 0, sizeof handler);
  handler.startElement = on_tag;
  transfer->parser = checked(htmlCreatePushParserCtxt(&handler, transfer, NULL, 0, transfer->url, encoding_of(type)));
  htmlCtxtUseOptions(transfer->parser,
                     HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET);
  return true;
}

/* libcurl calls it with what has come; another number than that of the bytes ends the transfer. */
static size_t on_content(char *data, size_t size, size_t count, void *user) {
  struct transfer *transfer = user;
  size *= count;
  if (!transfer->begun && !begin(transfer)) return CURL_WRITEFUNC_ERROR;
  if (transfer->parser == NULL) return CURL_WRITEFUNC_ERROR;
  transfer->found->bytes += size;
  transfer->too_large = transfer->found->bytes > MAXIMUM_PAGE;
  if (transfer->too_large || transfer->too_many) return CURL_WRITEFUNC_ERROR;
  htmlParseChunk(transfer->parser, data, (int)size, 0);
  return size;
}

/* ---- The transfer ------------------------------------------------------------------------------------------------ */

static struct fetcher *make_fetcher(long timeout_s) {
  struct fetcher *fetcher = checked(calloc(1, sizeof *fetcher));
  fetcher->multi = checked(curl_multi_init());
  fetcher->easy = checked(curl_easy_init());
  fetcher->timeout_s = timeout_s;
  return fetcher;
}

static void free_fetcher(struct fetcher *fetcher) {
  if (fetcher == NULL) return;
  curl_easy_cleanup(fetcher->easy);
  curl_multi_cleanup(fetcher->multi);
  free(fetcher);
}

/* Redirects are not followed here: where they lead is a page of its own, which may have been seen. */
static void set_up(struct fetcher *fetcher, struct transfer *transfer) {
  CURL *easy = fetcher->easy;
  curl_easy_reset(easy);
  curl_easy_setopt(easy, CURLOPT_URL, transfer->url);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_USERAGENT, "nocter-crawl");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, fetcher->timeout_s);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L); /* nothing at all for so long */
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, fetcher->timeout_s);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT, 10 * fetcher->timeout_s);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_content);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
  transfer->easy = easy;
}

/* CURLE_ABORTED_BY_CALLBACK when the interrupt was raised. */
static CURLcode carry_out(struct fetcher *fetcher, const nocter_interrupt *interrupt) {
  CURLcode result = CURLE_FAILED_INIT;
  int running = 1, left;
  if (curl_multi_add_handle(fetcher->multi, fetcher->easy) != CURLM_OK) return result;
  while (curl_multi_perform(fetcher->multi, &running) == CURLM_OK && running != 0 &&
         !nocter_interrupt_raised(interrupt) && curl_multi_poll(fetcher->multi, NULL, 0, LOOK_MS, NULL) == CURLM_OK) {
  }
  for (CURLMsg *message; (message = curl_multi_info_read(fetcher->multi, &left)) != NULL;) {
    if (message->msg == CURLMSG_DONE) result = message->data.result;
  }
  if (running != 0 && nocter_interrupt_raised(interrupt)) result = CURLE_ABORTED_BY_CALLBACK;
  curl_multi_remove_handle(fetcher->multi, fetcher->easy);
  return result;
}

/* ---- What came of it ------------------------------------------------------------------------------------------- */

static enum fetched tell(char *reason, size_t size, enum fetched fetched, const char *what) {
  snprintf(reason, size, "%s", what);
  return fetched;
}

/* Of what may be better at another time the next try says more: too many requests, and all that a server blames itself for. */
static enum fetched judge(struct transfer *transfer, CURLcode result, char *reason, size_t size) {
  const long status = status_of(transfer->easy);
  struct found *found = transfer->found;
  if (result == CURLE_ABORTED_BY_CALLBACK) return STOPPED;
  if (transfer->too_large) return tell(reason, size, BROKEN, "a page of more than 64 MiB");
  if (transfer->too_many) return tell(reason, size, BROKEN, "a page of too many links");
  if (result != CURLE_OK && result != CURLE_WRITE_ERROR) {
    return tell(reason, size, UNREACHABLE, curl_easy_strerror(result));
  }
  if (status >= 200 && status <= 299) return FETCHED;
  const char *target = field(transfer->easy, "Location");
  if (status >= 300 && status <= 399 && *target != '\0') {
    found->kind = KIND_REDIRECT;
    add_link(transfer, target);
    return FETCHED;
  }
  snprintf(reason, size, "HTTP status %ld", status);
  return status == 429 || status >= 500 ? UNREACHABLE : BROKEN;
}

/* Says what is found at the URL, or in `reason` why nothing is. */
static enum fetched fetch(struct fetcher *fetcher, const char *url, const nocter_interrupt *interrupt,
                          struct found *found, char *reason, size_t size) {
  struct transfer transfer = {NULL, url, NULL, NULL, false, false, false, 0, found};
  set_up(fetcher, &transfer);
  const CURLcode result = carry_out(fetcher, interrupt);
  if (result == CURLE_OK && !transfer.begun) begin(&transfer); /* nothing followed the head */
  if (transfer.parser != NULL) {
    if (result == CURLE_OK) htmlParseChunk(transfer.parser, NULL, 0, 1);
    htmlFreeParserCtxt(transfer.parser);
  }
  const enum fetched fetched = judge(&transfer, result, reason, size);
  sort_and_unite(&found->links);
  if (found->links.count > MAXIMUM_LINKS && fetched == FETCHED) {
    free(transfer.base);
    return tell(reason, size, BROKEN, "a page of too many links");
  }
  free(transfer.base);
  return fetched;
}

#endif

/*
 * What a page is called: one spelling of its URL, which is its key in the set of those that were seen.
 */
#ifndef CRAWL_URL_H
#define CRAWL_URL_H

#include <curl/curl.h>

#include "crawl_records.h"

#define MAXIMUM_URL 2000
#define MAXIMUM_KEY 255

/* What may not stand in a URL, or would be escaped in JSON, is written as %XX. To be freed. */
static char *escaped(const char *url) {
  static const char digits[] = "0123456789ABCDEF";
  struct text text = {NULL, 0, 0};
  for (const unsigned char *byte = (const unsigned char *)url; *byte != '\0'; byte++) {
    if (*byte > ' ' && *byte <= '~' && strchr("\"<>\\^`{|}", *byte) == NULL) {
      append_bytes(&text, (const char *)byte, 1);
    } else {
      const char code[3] = {'%', digits[*byte >> 4], digits[*byte & 15]};
      append_bytes(&text, code, sizeof code);
    }
  }
  append_bytes(&text, "", 1);
  return text.data;
}

/* Without what browsers leave out: blanks around it, tabs and line ends anywhere, and what names a part of a page. To be freed. */
static char *trimmed(const char *reference) {
  struct text text = {NULL, 0, 0};
  reference += strspn(reference, " \t\n\r\f");
  for (; *reference != '\0' && *reference != '#'; reference++) {
    if (strchr("\t\n\r\f", *reference) == NULL) append_bytes(&text, reference, 1);
  }
  while (text.size != 0 && text.data[text.size - 1] == ' ') text.size--;
  append_bytes(&text, "", 1);
  char *clean = escaped(text.data);
  free(text.data);
  return clean;
}

/* The host in small letters, no default port. */
static char *spell(CURLU *url) {
  char *host = NULL, *text = NULL, *result = NULL;
  if (curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
    for (char *letter = host; *letter != '\0'; letter++) {
      if (*letter >= 'A' && *letter <= 'Z') *letter = (char)(*letter + ('a' - 'A'));
    }
    if (curl_url_set(url, CURLUPART_HOST, host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_URL, &text, CURLU_NO_DEFAULT_PORT) == CURLUE_OK) {
      result = escaped(text);
    }
  }
  curl_free(host);
  curl_free(text);
  return result;
}

static bool has_part(CURLU *url, CURLUPart part) {
  char *text = NULL;
  const bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;
  curl_free(text);
  return has;
}

/* What a reference on a page means; the base may be NULL. To be freed; NULL when it leads to no page: other schemes, a password in
   it, no URL at all, or too long. */
static char *resolve(const char *base, const char *reference) {
  char *scheme = NULL, *result = NULL, *clean = trimmed(reference);
  const bool itself = base != NULL && *clean == '\0';
  CURLU *url = checked(curl_url());
  if ((base == NULL || curl_url_set(url, CURLUPART_URL, base, 0) == CURLUE_OK) &&
      (itself || curl_url_set(url, CURLUPART_URL, clean, 0) == CURLUE_OK) &&
      curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
      (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0) && !has_part(url, CURLUPART_USER) &&
      !has_part(url, CURLUPART_PASSWORD)) {
    result = spell(url);
  }
  if (result != NULL && strlen(result) > MAXIMUM_URL) {
    free(result);
    result = NULL;
  }
  curl_free(scheme);
  curl_url_cleanup(url);
  free(clean);
  return result;
}

/* Scheme, host and port with the slash behind them: what two pages of one site have in common. */
static bool same_site(const char *a, const char *b) {
  const char *host = strstr(a, "://");
  const char *slash = host == NULL ? NULL : strchr(host + 3, '/');
  return slash != NULL && strncmp(a, b, (size_t)(slash + 1 - a)) == 0;
}

/* The URL itself; of a long one its beginning and a number made of all of it. */
static nocter_text key_of(const char *url, char key[MAXIMUM_KEY + 1]) {
  const size_t size = strlen(url);
  if (size <= MAXIMUM_KEY) return (nocter_text){url, size};
  uint64_t one = 14695981039346656037u, other = 1099511628211u;
  for (size_t i = 0; i < size; i++) {
    one = (one ^ (unsigned char)url[i]) * 1099511628211u; /* FNV-1a */
    other = (other + (unsigned char)url[i]) * 6364136223846793005u + 1442695040888963407u;
  }
  const int written = snprintf(key, MAXIMUM_KEY + 1, "%.200s#%016" PRIx64 "%016" PRIx64, url, one, other);
  return (nocter_text){key, (size_t)written};
}

#endif

//! Responses and the headers that all of them have.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

/// Nothing is loaded from elsewhere, nothing runs inline, nobody may frame us.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Adds the headers that every response has. No header permits another origin anything.
pub fn with_policies(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &str); 6] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // Not no-referrer: browsers would then send forms with `Origin: null`, and writes would look like foreign ones.
    headers.entry(REFERRER_POLICY).or_insert(HeaderValue::from_static("same-origin"));
    response
}

/// A page that says why nothing is shown. Served without a cookie, so it contains nothing else.
pub fn refused(status: StatusCode, message: &str) -> Response {
    (status, html_headers(), bare(html! {}, html! { p { (message) } }).into_string()).into_response()
}

/// The response to a valid token: the cookie, and the way to the first page.
///
/// Browsers withhold a strict cookie from a redirect that another site began, and the file that leads here counts as one;
/// such a visitor gets a page of ours that leads on.
pub fn entered(cookie: &str, is_from_file: bool) -> Response {
    let mut response = if is_from_file {
        let refresh = html! { meta http-equiv="refresh" content="0; url=/"; };
        let page = bare(refresh, html! { p { a href="/" { "Open the memory" } } });
        (StatusCode::OK, html_headers(), page.into_string()).into_response()
    } else {
        (StatusCode::SEE_OTHER, [(LOCATION, "/")]).into_response()
    };
    let headers = response.headers_mut();
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        headers.insert(SET_COOKIE, cookie);
    }
    // The address contains the token, although it is used up by now.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// True if another site, or a file, made the browser send the request.
pub fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "none" && site != "same-origin")
}

/// A page of ours.
pub fn page(markup: Markup) -> Response {
    (html_headers(), markup.into_string()).into_response()
}

fn html_headers() -> [(HeaderName, &'static str); 1] {
    [(CONTENT_TYPE, "text/html; charset=utf-8")]
}

fn bare(head: Markup, content: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; meta name="color-scheme" content="light dark"; title { "claude-mem" } (head) }
            body { h1 { "claude-mem" } (content) }
        }
    }
}

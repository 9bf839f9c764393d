//! Decides by its head whether a request may be served. Every refusal happens before anything else is looked at.

use axum::http::header::{COOKIE, HOST, HeaderName, ORIGIN, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};

use super::Access;

/// Path of the entry; a token follows.
pub const ENTER: &str = "/enter/";
/// Header that scripts of other origins cannot send without a preflight, which we never answer.
pub const WRITE_HEADER: &str = "x-mem";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The head is ambiguous.
    Malformed,
    /// Neither GET, HEAD nor POST.
    Method,
    /// It was sent to another name than ours.
    Host,
    /// Another site made the browser send it.
    CrossSite,
    /// A write that our pages did not send.
    Origin,
    /// It has no valid cookie.
    NotEntered,
}

impl Refusal {
    /// Its HTTP status.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Host | Self::CrossSite | Self::Origin | Self::NotEntered => StatusCode::FORBIDDEN,
        }
    }

    /// The explanation for a person.
    pub fn message(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed.",
            Self::Method => "This method is not supported.",
            Self::Host => "This address is not the viewer's. Run `claude-mem open` again.",
            Self::CrossSite => "Another site may not use the viewer. Run `claude-mem open` again.",
            Self::Origin => "Only the viewer's own pages may change memories.",
            Self::NotEntered => "This browser has not been let in. Run `claude-mem open` for a new address.",
        }
    }
}

/// The kind of a request that may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// It brings an entry token, which still has to be redeemed.
    Entry,
    /// It has the cookie.
    Entered,
}

/// Checks a request for the viewer at `authority` (host and port).
pub fn check(parts: &Parts, authority: &str, access: &Access) -> Result<Permit, Refusal> {
    let headers = &parts.headers;
    if only(headers, &HOST) != Some(authority) {
        return Err(Refusal::Host);
    }
    if parts.uri.authority().is_some_and(|named| named.as_str() != authority) {
        return Err(Refusal::Host);
    }
    // Browsers send forms with a length; two ways to end a body are one too many.
    if headers.contains_key(TRANSFER_ENCODING) {
        return Err(Refusal::Malformed);
    }
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    if !is_read && parts.method != Method::POST {
        return Err(Refusal::Method);
    }
    // The token is the permission: the entry is reached from a file, which counts as another site.
    if is_read && parts.uri.path().starts_with(ENTER) {
        let is_navigation = only(headers, &SEC_FETCH_MODE).is_none_or(|mode| mode == "navigate");
        return if is_navigation { Ok(Permit::Entry) } else { Err(Refusal::CrossSite) };
    }
    if headers.contains_key(SEC_FETCH_SITE)
        && !matches!(only(headers, &SEC_FETCH_SITE), Some("none" | "same-origin"))
    {
        return Err(Refusal::CrossSite);
    }
    if !only(headers, &COOKIE).is_some_and(|cookies| access.has_cookie(cookies)) {
        return Err(Refusal::NotEntered);
    }
    if !is_read && only(headers, &ORIGIN) != Some(&format!("http://{authority}")) {
        return Err(Refusal::Origin);
    }
    Ok(Permit::Entered)
}

/// Returns the value of a header that occurs once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    const AUTHORITY: &str = "m1.localhost:4000";

    fn checked(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<Permit, Refusal> {
        let access = Access::new().unwrap();
        let set = access.set_cookie();
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            let value = if *value == "OURS" { set.split(';').next().unwrap() } else { value };
            request = request.header(*name, value);
        }
        check(&request.body(()).unwrap().into_parts().0, AUTHORITY, &access)
    }

    const HOST_LINE: (&str, &str) = ("host", AUTHORITY);
    const COOKIE_LINE: (&str, &str) = ("cookie", "OURS");
    const ORIGIN_LINE: (&str, &str) = ("origin", "http://m1.localhost:4000");

    #[test]
    fn pages_need_our_host_our_site_and_our_cookie() {
        assert_eq!(checked("GET", "/", &[HOST_LINE, COOKIE_LINE]), Ok(Permit::Entered));
        for site in ["none", "same-origin"] {
            let headers = [HOST_LINE, COOKIE_LINE, ("sec-fetch-site", site)];
            assert_eq!(checked("GET", "/", &headers), Ok(Permit::Entered));
        }
        for site in ["cross-site", "same-site", ""] {
            let headers = [HOST_LINE, COOKIE_LINE, ("sec-fetch-site", site)];
            assert_eq!(checked("GET", "/", &headers), Err(Refusal::CrossSite), "{site}");
        }
        assert_eq!(checked("GET", "/", &[HOST_LINE]), Err(Refusal::NotEntered));
        for host in ["evil.example:4000", "127.0.0.1:4000", "m1.localhost", "m1.localhost:4000.", ""] {
            assert_eq!(checked("GET", "/", &[("host", host), COOKIE_LINE]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(checked("GET", "/", &[COOKIE_LINE]), Err(Refusal::Host));
        let twice = [HOST_LINE, ("host", "evil.example"), COOKIE_LINE];
        assert_eq!(checked("GET", "/", &twice), Err(Refusal::Host));
        assert_eq!(checked("GET", "http://evil.example/", &[HOST_LINE, COOKIE_LINE]), Err(Refusal::Host));
    }

    #[test]
    fn writes_also_need_our_origin() {
        assert_eq!(checked("POST", "/", &[HOST_LINE, COOKIE_LINE, ORIGIN_LINE]), Ok(Permit::Entered));
        assert_eq!(checked("POST", "/", &[HOST_LINE, COOKIE_LINE]), Err(Refusal::Origin));
        for origin in ["null", "http://evil.example", "https://m1.localhost:4000", "http://m1.localhost"] {
            let headers = [HOST_LINE, COOKIE_LINE, ("origin", origin)];
            assert_eq!(checked("POST", "/", &headers), Err(Refusal::Origin), "{origin}");
        }
        for method in ["OPTIONS", "PUT", "DELETE", "TRACE", "CONNECT", "PATCH"] {
            let target = if method == "CONNECT" { AUTHORITY } else { "/" };
            let headers = [HOST_LINE, COOKIE_LINE, ORIGIN_LINE];
            assert_eq!(checked(method, target, &headers), Err(Refusal::Method), "{method}");
        }
        let smuggled = [HOST_LINE, COOKIE_LINE, ("content-length", "5"), ("transfer-encoding", "chunked")];
        assert_eq!(checked("POST", "/", &smuggled), Err(Refusal::Malformed));
    }

    #[test]
    fn an_entry_is_a_navigation_and_never_a_write() {
        let entry = |headers: &[(&str, &str)]| checked("GET", "/enter/abc", headers);
        assert_eq!(entry(&[HOST_LINE]), Ok(Permit::Entry));
        assert_eq!(
            entry(&[HOST_LINE, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]),
            Ok(Permit::Entry)
        );
        assert_eq!(entry(&[HOST_LINE, ("sec-fetch-mode", "no-cors")]), Err(Refusal::CrossSite));
        assert_eq!(entry(&[("host", "evil.example")]), Err(Refusal::Host));
        assert_eq!(checked("POST", "/enter/abc", &[HOST_LINE, ORIGIN_LINE]), Err(Refusal::NotEntered));
    }
}

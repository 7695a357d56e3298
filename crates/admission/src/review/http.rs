//! HTTP error responses, described in client-go's wording.

use insula_gotext::quote;

/// How many bytes of a response body are quoted.
const SHOWN: usize = 2048;

/// Describes a webhook response with a status other than 200 to 206.
pub fn unexpected(code: u16, content_type: Option<&str>, body: &[u8]) -> String {
    let said = said(content_type, body);
    let known = match code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if said.is_empty() || said == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => return said,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request"
        }
        500.. => {
            let said = quote(&said);
            return format!(
                "an error on the server ({said}) has prevented the request from succeeding"
            );
        }
        _ => {
            return format!(
                "the server responded with the status code {code} but did not return more \
                 information"
            );
        }
    };
    known.to_owned()
}

/// The quotable part of a body: text only.
fn said(content_type: Option<&str>, body: &[u8]) -> String {
    let is_text = |media: &str| media.trim().to_ascii_lowercase().starts_with("text/");
    if !content_type.is_none_or(|of| of.is_empty() || is_text(of)) {
        return "unknown".to_owned();
    }
    let shown = &body[..body.len().min(SHOWN)];
    String::from_utf8_lossy(shown).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_use_client_go_wording() {
        let text = Some("text/plain; charset=utf-8");
        let json = Some("application/json");
        for (code, of, body, expected) in [
            (
                500,
                json,
                "{}",
                "an error on the server (\"unknown\") has prevented the request from succeeding",
            ),
            (
                502,
                text,
                "bad\n",
                "an error on the server (\"bad\") has prevented the request from succeeding",
            ),
            (
                500,
                None,
                "",
                "an error on the server (\"\") has prevented the request from succeeding",
            ),
            (
                302,
                None,
                "",
                "the server responded with the status code 302 but did not return more information",
            ),
            (
                418,
                text,
                "",
                "the server responded with the status code 418 but did not return more information",
            ),
            (
                404,
                text,
                "404",
                "the server could not find the requested resource",
            ),
            (403, text, "go away", "go away"),
            (
                406,
                json,
                "",
                "the server was unable to respond with a content type that the client supports",
            ),
            (
                503,
                text,
                "x",
                "the server is currently unable to handle the request",
            ),
        ] {
            assert_eq!(unexpected(code, of, body.as_bytes()), expected, "{code}");
        }
    }

    #[test]
    fn at_most_2048_bytes_of_a_body_are_quoted() {
        let told = unexpected(403, None, &[b'a'; 1 << 20]);
        assert_eq!(told.len(), SHOWN);
    }
}

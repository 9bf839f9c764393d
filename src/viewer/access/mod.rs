//! Secrets of one viewer: entry tokens, the cookie that a token is exchanged for, and the token in forms.

pub mod guard;
pub mod peer;
#[cfg(target_os = "linux")]
mod sock_diag;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};

/// Time within which an entry token must be used.
pub const ENTRY_LIFETIME: Duration = Duration::from_secs(60);
/// Maximum unused entry tokens; the oldest becomes invalid.
const MAX_ENTRIES: usize = 8;

/// The secrets. None of them is ever written to disk, except an entry token in a file that only the user can read.
pub struct Access {
    cookie_name: String,
    cookie: Digest,
    cookie_value: String,
    form_token: String,
    entries: Mutex<VecDeque<(Digest, Instant)>>,
}

/// Secrets are compared by their digests, so that the time of a comparison reveals nothing about them.
type Digest = [u8; 32];

impl Access {
    /// Draws new secrets.
    pub fn new() -> anyhow::Result<Self> {
        let cookie_value = random::<32>()?;
        Ok(Self {
            cookie_name: format!("mem_{}", random::<4>()?),
            cookie: digest(&cookie_value),
            cookie_value,
            form_token: random::<16>()?,
            entries: Mutex::default(),
        })
    }

    /// Issues a token that is valid once and for [`ENTRY_LIFETIME`].
    pub fn issue(&self, now: Instant) -> anyhow::Result<String> {
        let token = random::<32>()?;
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push_back((digest(&token), now + ENTRY_LIFETIME));
        while entries.len() > MAX_ENTRIES {
            entries.pop_front();
        }
        Ok(token)
    }

    /// Uses up a token. True if it was valid.
    pub fn redeem(&self, token: &str, now: Instant) -> bool {
        let token = digest(token);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(_, until)| now < *until);
        let found = entries.iter().position(|(known, _)| *known == token);
        found.and_then(|at| entries.remove(at)).is_some()
    }

    /// The value of the Set-Cookie header.
    pub fn set_cookie(&self) -> String {
        format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie_name, self.cookie_value)
    }

    /// True if a Cookie header has our cookie, exactly once.
    pub fn has_cookie(&self, header: &str) -> bool {
        let pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
        let mut ours = pairs.filter(|(name, _)| *name == self.cookie_name);
        let is_valid = ours.next().is_some_and(|(_, value)| digest(value) == self.cookie);
        is_valid && ours.next().is_none()
    }

    /// The token that forms carry in a hidden field.
    pub fn form_token(&self) -> &str {
        &self.form_token
    }

    /// True if a form carried our token.
    pub fn is_form_token(&self, token: &str) -> bool {
        digest(token) == digest(&self.form_token)
    }
}

fn digest(text: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref());
    bytes
}

/// Returns `N` random bytes in hexadecimal.
pub fn random<const N: usize>() -> anyhow::Result<String> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| anyhow::anyhow!("the system provides no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_token_is_valid_once_and_for_a_minute() {
        let access = Access::new().unwrap();
        let now = Instant::now();
        let token = access.issue(now).unwrap();
        assert_eq!(token.len(), 64, "256 bits");
        assert!(!access.redeem("0", now) && !access.redeem("", now));
        assert!(access.redeem(&token, now));
        assert!(!access.redeem(&token, now), "replayed");
        let late = access.issue(now).unwrap();
        assert!(!access.redeem(&late, now + ENTRY_LIFETIME), "expired");
    }

    #[test]
    fn unused_tokens_do_not_accumulate() {
        let access = Access::new().unwrap();
        let now = Instant::now();
        let first = access.issue(now).unwrap();
        for _ in 0..MAX_ENTRIES {
            access.issue(now).unwrap();
        }
        assert!(!access.redeem(&first, now));
    }

    #[test]
    fn the_cookie_is_recognised_among_others_and_only_alone() {
        let access = Access::new().unwrap();
        let set = access.set_cookie();
        let pair = set.split(';').next().unwrap();
        assert!(access.has_cookie(pair));
        assert!(access.has_cookie(&format!("a=b; {pair}; c=d")));
        assert!(!access.has_cookie(&format!("{pair}; {pair}")));
        assert!(!access.has_cookie(&pair[..pair.len() - 1]));
        assert!(!access.has_cookie("") && !access.has_cookie(&format!("{}=", access.cookie_name)));
        assert!(!access.has_cookie(&format!("{}={}", access.cookie_name, access.form_token())));
    }
}

//! Invitations: one line that lets another machine join.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::SyncError;
use super::keys::{Epochs, sha256};

/// Begins every invitation.
const PREFIX: &str = "claude-mem-invitation-1-";

/// The contents of an invitation.
#[derive(Debug, Serialize, Deserialize)]
pub struct Invitation {
    /// The server's address: with the login for one's own machines, without it for another person.
    pub url: String,
    /// The team.
    pub team: Uuid,
    /// Its name.
    pub name: String,
    /// False: bodies are readable on the server.
    pub is_sealed: bool,
    /// Proves to the server that a member invited the bearer.
    pub token: String,
    /// The team's keys.
    pub team_keys: Epochs,
    /// The inviting login's own keys, for its own machines only.
    pub my_keys: Option<Epochs>,
}

impl Invitation {
    /// Renders it as one line.
    pub fn to_line(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let check = &sha256(&json)[..4];
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode([check, &json].concat()))
    }

    /// Parses a line.
    pub fn from_line(line: &str) -> Result<Self, SyncError> {
        let wrong = |reason: &str| SyncError::Invitation(reason.to_owned());
        let rest = line.trim().strip_prefix(PREFIX).ok_or_else(|| {
            wrong("this is not an invitation, which is one line that begins with claude-mem-invitation-")
        })?;
        let incomplete = || wrong("this invitation is incomplete or was changed; copy the whole line");
        let bytes = URL_SAFE_NO_PAD.decode(rest).map_err(|_| incomplete())?;
        let (check, json) = bytes.split_first_chunk::<4>().ok_or_else(incomplete)?;
        if sha256(json)[..4] != *check {
            return Err(incomplete());
        }
        serde_json::from_slice(json).map_err(|_| incomplete())
    }

    /// Returns the token's form that the server stores.
    pub fn token_hash(&self) -> [u8; 32] {
        sha256(self.token.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::keys::Key;

    #[test]
    fn a_damaged_line_is_refused() {
        let invitation = Invitation {
            url: "postgres://anna@db/mem".into(),
            team: Uuid::from_u128(5),
            name: "harbor".into(),
            is_sealed: true,
            token: "t".into(),
            team_keys: [(1, Key::random())].into(),
            my_keys: None,
        };
        let line = invitation.to_line();
        assert_eq!(Invitation::from_line(&format!(" {line}\n")).unwrap().team_keys, invitation.team_keys);
        for wrong in ["", "hello", &line[..line.len() - 3], &line.replace(PREFIX, "claude-mem-invitation-9-")]
        {
            assert!(matches!(Invitation::from_line(wrong), Err(SyncError::Invitation(_))), "{wrong}");
        }
    }
}

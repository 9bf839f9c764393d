//! Keys and sealing. A body is sealed under a random key of its project, which is itself sealed
//! under the team's key or the member's own; both are known to the members' devices only.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;
use zeroize::Zeroize;

const NONCE_BYTES: usize = 24;
const ID_BYTES: usize = 16;

/// Bytes that sealing adds to a body: key id, nonce, and authentication tag.
pub const OVERHEAD: usize = ID_BYTES + NONCE_BYTES + 16;

/// A 256-bit key. Never printed; wiped when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// Makes a random key.
    pub fn random() -> Self {
        Self(random())
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns a value that proves knowledge of the key without revealing it.
    pub fn check(&self) -> [u8; 32] {
        self.mac(b"claude-mem sync: key check")
    }

    /// Returns a proof that somebody with this key made `subject`.
    pub fn proof(&self, subject: &[u8]) -> [u8; 32] {
        self.derive(b"claude-mem sync: member").mac(subject)
    }

    /// Returns the private key with which a member receives keys of the team.
    pub fn exchange_secret(&self) -> [u8; 32] {
        self.mac(b"claude-mem sync: exchange")
    }

    /// Makes the key of a message between two members from their shared secret.
    pub fn from_exchange(shared: &[u8; 32]) -> Self {
        Self(*shared).derive(b"claude-mem sync: team key")
    }

    /// Seals this key under another one.
    pub fn wrapped(&self, under: &Self, context: &[u8]) -> Option<Vec<u8>> {
        under.seal(&self.0, context)
    }

    /// Opens a key that was sealed under another one.
    pub fn unwrapped(wrapped: &[u8], under: &Self, context: &[u8]) -> Option<Self> {
        let mut bytes = under.open(wrapped, context)?;
        let key = Self::from_bytes(&bytes);
        bytes.zeroize();
        key
    }

    fn mac(&self, message: &[u8]) -> [u8; 32] {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.0), message);
        tag.as_ref().try_into().unwrap_or_default()
    }

    fn derive(&self, purpose: &[u8]) -> Self {
        Self(self.mac(purpose))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.0.into())
    }

    /// Seals a message: nonce, then ciphertext.
    fn seal(&self, message: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let nonce: [u8; NONCE_BYTES] = random();
        let payload = Payload { msg: message, aad: context };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload).ok()?;
        Some([nonce.as_slice(), &sealed].concat())
    }

    fn open(&self, sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        self.cipher().decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: context }).ok()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key")
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        bytes.and_then(|bytes| Self::from_bytes(&bytes)).ok_or_else(|| serde::de::Error::custom("not a key"))
    }
}

/// Returns random bytes. The system's generator does not fail once the system runs.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[allow(clippy::expect_used, reason = "continuing with predictable keys would be worse")]
    SystemRandom::new().fill(&mut bytes).expect("the system has a random generator");
    bytes
}

/// Returns the SHA-256 of a message.
pub fn sha256(message: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, message).as_ref().try_into().unwrap_or_default()
}

/// A key for each epoch.
pub type Epochs = BTreeMap<i32, Key>;

/// The keys of one circle of devices: the team's, or those of one login.
#[derive(Debug, Clone)]
pub struct Circle {
    /// The team.
    pub team: Uuid,
    /// The login whose devices these are; empty for the team.
    pub login: String,
    /// Its keys.
    pub epochs: Epochs,
}

/// The key of a project's bodies.
#[derive(Debug, Clone)]
pub struct ProjectKey {
    /// Its id, named by every body that it sealed.
    pub id: Uuid,
    /// The key.
    pub key: Key,
}

impl Circle {
    /// Returns the epoch that new records use.
    pub fn epoch(&self) -> i32 {
        self.epochs.keys().next_back().copied().unwrap_or(1)
    }

    /// Names are hashed with the first key, so that they stay the same in every epoch.
    fn names(&self, purpose: &[u8], name: &str) -> [u8; 32] {
        let first = self.epochs.values().next().map(|key| key.derive(purpose));
        first.map_or([0; 32], |key| key.mac(name.as_bytes()))
    }

    /// Returns the name of a project on the server.
    pub fn project(&self, key: &str) -> Vec<u8> {
        self.names(b"claude-mem sync: project", key).to_vec()
    }

    /// Returns the name of a memory on the server.
    pub fn refers(&self, item: &str) -> Uuid {
        short(&self.names(b"claude-mem sync: memory", item))
    }

    /// Returns the key of records that belong to no project.
    pub fn own_key(&self, epoch: i32) -> Option<ProjectKey> {
        let key = self.epochs.get(&epoch)?.derive(b"claude-mem sync: records");
        Some(ProjectKey { id: Uuid::nil(), key })
    }

    /// Makes a key for a project, and its sealed form for the server.
    pub fn new_project_key(&self, project: &[u8]) -> Option<(ProjectKey, Vec<u8>)> {
        let made = ProjectKey { id: Uuid::new_v4(), key: Key::random() };
        let wrapped = made.key.wrapped(&self.wrapping(self.epoch())?, &self.context(project, made.id))?;
        Some((made, wrapped))
    }

    /// Opens the sealed key of a project.
    pub fn open_project_key(
        &self,
        project: &[u8],
        epoch: i32,
        id: Uuid,
        wrapped: &[u8],
    ) -> Option<ProjectKey> {
        let key = Key::unwrapped(wrapped, &self.wrapping(epoch)?, &self.context(project, id))?;
        Some(ProjectKey { id, key })
    }

    fn wrapping(&self, epoch: i32) -> Option<Key> {
        self.epochs.get(&epoch).map(|key| key.derive(b"claude-mem sync: wrap"))
    }

    fn context(&self, project: &[u8], id: Uuid) -> Vec<u8> {
        [self.team.as_bytes().as_slice(), self.login.as_bytes(), &[0], project, id.as_bytes()].concat()
    }
}

/// Returns the first half of a hash as an id.
pub fn short(hash: &[u8; 32]) -> Uuid {
    let mut bytes = [0; ID_BYTES];
    bytes.copy_from_slice(&hash[..ID_BYTES]);
    Uuid::from_bytes(bytes)
}

impl ProjectKey {
    /// Seals a body. `context` is everything about the record that the server can read.
    pub fn seal(&self, body: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        Some([self.id.as_bytes().as_slice(), &self.key.seal(body, context)?].concat())
    }

    /// Opens a body without its key id.
    pub fn open(&self, sealed: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        self.key.open(sealed, context)
    }
}

/// Splits a sealed body into the id of its key and the rest.
pub fn split(body: &[u8]) -> Option<(Uuid, &[u8])> {
    let (id, rest) = body.split_first_chunk::<ID_BYTES>()?;
    Some((Uuid::from_bytes(*id), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle() -> Circle {
        Circle { team: Uuid::from_u128(7), login: "anna".into(), epochs: [(1, Key::random())].into() }
    }

    #[test]
    fn a_body_opens_only_with_its_key_and_its_context() {
        let circle = circle();
        let (key, wrapped) = circle.new_project_key(b"project").unwrap();
        let sealed = key.seal(b"the words", b"context").unwrap();
        assert_eq!(sealed.len(), b"the words".len() + OVERHEAD);
        let (id, rest) = split(&sealed).unwrap();
        let again = circle.open_project_key(b"project", 1, id, &wrapped).unwrap();
        assert_eq!(again.open(rest, b"context").as_deref(), Some(b"the words".as_slice()));
        assert_eq!(again.open(rest, b"contexT"), None);
        let mut flipped = rest.to_vec();
        flipped[NONCE_BYTES] ^= 1;
        assert_eq!(again.open(&flipped, b"context"), None);
        assert_eq!(again.open(&rest[..10], b"context"), None);
        assert!(circle.open_project_key(b"another", 1, id, &wrapped).is_none());
        let stranger = Circle { epochs: [(1, Key::random())].into(), ..circle };
        assert!(stranger.open_project_key(b"project", 1, id, &wrapped).is_none());
    }

    #[test]
    fn names_are_stable_over_epochs_and_differ_between_circles() {
        let first = circle();
        let mut later = first.clone();
        later.epochs.insert(2, Key::random());
        assert_eq!(first.project("git:host/a/b"), later.project("git:host/a/b"));
        assert_eq!(first.refers("o:1"), later.refers("o:1"));
        assert_ne!(first.refers("o:1"), circle().refers("o:1"));
        assert_eq!(later.epoch(), 2);
    }

    #[test]
    fn a_key_survives_json_and_hides_in_debug_output() {
        let key = Key::random();
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key);
        assert_eq!(format!("{key:?}"), "Key");
        assert!(serde_json::from_str::<Key>("\"short\"").is_err());
    }
}

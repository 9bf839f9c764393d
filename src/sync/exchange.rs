//! New keys of the team, sealed for each of its members: a removed member's earlier keys do not open
//! them.
//!
//! A member's private key is derived from the key that all of their devices have, so that each of
//! them can open what is sealed for the member. The public keys come from the server, but only with
//! a proof under a key of the team.

use uuid::Uuid;
use x25519_dalek::{PublicKey, StaticSecret};

use super::keys::{Epochs, Key};

/// The public key of a member, and the proof that a member of the team made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Public {
    /// The key.
    pub key: Vec<u8>,
    /// An HMAC under a key of the team.
    pub proof: Vec<u8>,
}

impl Public {
    /// True if somebody with a key of the team made it for this login.
    pub fn is_genuine(&self, team: Uuid, login: &str, team_keys: &Epochs) -> bool {
        team_keys.values().any(|key| key.proof(&subject(team, login, &self.key)).as_slice() == self.proof)
    }
}

/// The private key of a member.
pub struct Identity {
    secret: StaticSecret,
    team: Uuid,
}

impl Identity {
    /// Derives it from the member's own keys. Every device has the first one.
    pub fn new(team: Uuid, my_keys: &Epochs) -> Option<Self> {
        let secret = my_keys.values().next()?.exchange_secret();
        Some(Self { secret: StaticSecret::from(secret), team })
    }

    /// Returns the public key, with a proof under the newest key of the team.
    pub fn public(&self, login: &str, team_keys: &Epochs) -> Option<Public> {
        let key = PublicKey::from(&self.secret).as_bytes().to_vec();
        let proof = team_keys.values().next_back()?.proof(&subject(self.team, login, &key)).to_vec();
        Some(Public { key, proof })
    }

    /// Seals a key of the team for a member.
    pub fn seal(&self, to: &Public, sent: &Sent<'_>, key: &Key) -> Option<Vec<u8>> {
        key.wrapped(&self.shared_with(to)?, &sent.context(self.team))
    }

    /// Opens a key of the team that a member sealed for this one.
    pub fn open(&self, from: &Public, sent: &Sent<'_>, wrapped: &[u8]) -> Option<Key> {
        Key::unwrapped(wrapped, &self.shared_with(from)?, &sent.context(self.team))
    }

    fn shared_with(&self, other: &Public) -> Option<Key> {
        let other: [u8; 32] = other.key.as_slice().try_into().ok()?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(other));
        // A key of low order gives a secret that everybody knows.
        shared.was_contributory().then(|| Key::from_exchange(shared.as_bytes()))
    }
}

/// The way of a sealed key, which is authenticated with it.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// The number of the key.
    pub epoch: i32,
    /// The login that made it.
    pub from: &'a str,
    /// The login that it is for.
    pub to: &'a str,
}

impl Sent<'_> {
    fn context(&self, team: Uuid) -> Vec<u8> {
        let epoch = self.epoch.to_be_bytes();
        [team.as_bytes().as_slice(), &epoch, self.from.as_bytes(), &[0], self.to.as_bytes()].concat()
    }
}

fn subject(team: Uuid, login: &str, public: &[u8]) -> Vec<u8> {
    [team.as_bytes().as_slice(), login.as_bytes(), &[0], public].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEAM: Uuid = Uuid::from_u128(3);

    #[test]
    fn only_the_member_that_it_was_sealed_for_opens_a_key() {
        let member = || Epochs::from([(1, Key::random())]);
        let (team_keys, anna, bert, eve) = (member(), member(), member(), member());
        let identity = |keys: &Epochs| Identity::new(TEAM, keys).unwrap();
        let public = |keys: &Epochs, login| identity(keys).public(login, &team_keys).unwrap();
        let (to_bert, fresh) = (Sent { epoch: 2, from: "anna", to: "bert" }, Key::random());
        let sealed = identity(&anna).seal(&public(&bert, "bert"), &to_bert, &fresh).unwrap();
        let from_anna = public(&anna, "anna");
        assert_eq!(identity(&bert).open(&from_anna, &to_bert, &sealed), Some(fresh.clone()));
        assert_eq!(identity(&eve).open(&from_anna, &to_bert, &sealed), None);
        assert_eq!(identity(&bert).open(&public(&eve, "anna"), &to_bert, &sealed), None);
        let earlier = Sent { epoch: 1, ..to_bert };
        assert_eq!(identity(&bert).open(&from_anna, &earlier, &sealed), None);
        let low_order = Public { key: vec![0; 32], proof: Vec::new() };
        assert_eq!(identity(&anna).seal(&low_order, &to_bert, &fresh), None);
    }

    #[test]
    fn a_public_key_counts_only_with_a_proof_of_the_team() {
        let (team_keys, mine) = (Epochs::from([(1, Key::random())]), Epochs::from([(1, Key::random())]));
        let identity = Identity::new(TEAM, &mine).unwrap();
        let public = identity.public("anna", &team_keys).unwrap();
        let mut later = team_keys.clone();
        later.insert(2, Key::random());
        assert!(public.is_genuine(TEAM, "anna", &later));
        assert!(!public.is_genuine(TEAM, "bert", &later));
        assert!(!public.is_genuine(Uuid::from_u128(4), "anna", &later));
        assert!(!public.is_genuine(TEAM, "anna", &[(1, Key::random())].into()));
    }
}

//! The client's side of SCRAM (RFC 5802, RFC 7677), without channel binding, as Kafka speaks it.
//!
//! ```text
//! SaltedPassword = PBKDF2(password, salt, iterations)        ClientKey = HMAC(SaltedPassword, "Client Key")
//! proof = ClientKey xor HMAC(H(ClientKey), messages)         the server proves itself by HMAC(HMAC(SaltedPassword, "Server Key"), messages)
//! ```
//!
//! The password never goes over the wire. A server that cannot prove that it knows it as well is refused.

use std::num::NonZeroU32;

use aws_lc_rs::{digest, hmac, pbkdf2, rand};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::{ExposeSecret as _, SecretString};

/// More rounds than any broker asks for are a way to keep us busy (Kafka: 4,096 to 16,384).
const MOST_ITERATIONS: u32 = 1_000_000;

/// Which hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Hash {
    const fn parts(self) -> (pbkdf2::Algorithm, hmac::Algorithm, &'static digest::Algorithm, usize) {
        match self {
            Self::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256, 32),
            Self::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512, &digest::SHA512, 64),
        }
    }
}

/// A login that has begun.
pub struct Scram {
    hash: Hash,
    nonce: String,
    first_bare: String,
    server_proof: Vec<u8>,
}

impl Scram {
    /// Begins, with a nonce of our own making.
    pub fn begin(hash: Hash, username: &str) -> Result<Self, &'static str> {
        let mut bytes = [0_u8; 24];
        rand::fill(&mut bytes).map_err(|_| "there is no randomness")?;
        Ok(Self::with_nonce(hash, username, BASE64_STANDARD.encode(bytes)))
    }

    fn with_nonce(hash: Hash, username: &str, nonce: String) -> Self {
        let user = username.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={user},r={nonce}");
        Self { hash, nonce, first_bare, server_proof: Vec::new() }
    }

    /// Our first message.
    pub fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.first_bare).into_bytes()
    }

    /// Our second message, in answer to the server's first.
    pub fn second(&mut self, server_first: &[u8], password: &SecretString) -> Result<Vec<u8>, &'static str> {
        let server_first = std::str::from_utf8(server_first).map_err(|_| "the server's challenge is no text")?;
        let field = |name: &str| server_first.split(',').find_map(|part| part.strip_prefix(name));
        let nonce = field("r=").filter(|nonce| nonce.starts_with(&self.nonce)).ok_or("the server's challenge is not in answer to ours")?;
        let salt = field("s=").and_then(|salt| BASE64_STANDARD.decode(salt).ok()).ok_or("the server's challenge has no salt")?;
        let iterations = field("i=").and_then(|count| count.parse::<NonZeroU32>().ok()).ok_or("the server's challenge has no iteration count")?;
        if iterations.get() > MOST_ITERATIONS {
            return Err("the server's challenge asks for too many iterations");
        }
        let (pbkdf2, hmac, digest, length) = self.hash.parts();
        let mut salted = vec![0_u8; length];
        pbkdf2::derive(pbkdf2, iterations, &salt, password.expose_secret().as_bytes(), &mut salted);
        let salted = hmac::Key::new(hmac, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let stored_key = digest::digest(digest, client_key.as_ref());
        let without_proof = format!("c=biws,r={nonce}");
        let messages = format!("{},{server_first},{without_proof}", self.first_bare);
        let signature = hmac::sign(&hmac::Key::new(hmac, stored_key.as_ref()), messages.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, signature)| key ^ signature).collect();
        let server_key = hmac::sign(&salted, b"Server Key");
        self.server_proof = hmac::sign(&hmac::Key::new(hmac, server_key.as_ref()), messages.as_bytes()).as_ref().to_vec();
        Ok(format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)).into_bytes())
    }

    /// Whether the server's last message proves that it knows the password.
    pub fn is_proven(&self, server_last: &[u8]) -> bool {
        let proof = std::str::from_utf8(server_last).ok().and_then(|text| text.strip_prefix("v=")).and_then(|proof| BASE64_STANDARD.decode(proof.trim()).ok());
        proof.is_some_and(|proof| !self.server_proof.is_empty() && proof == self.server_proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_exchange_of_the_standard_comes_out_to_the_letter() {
        let mut scram = Scram::with_nonce(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(scram.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let second = scram.second(challenge, &SecretString::from("pencil".to_owned())).expect("a challenge in order");
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(String::from_utf8(second).expect("text"), expected);
        assert!(scram.is_proven(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!scram.is_proven(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5="), "a server that does not know the password");
        assert!(!scram.is_proven(b"e=invalid-proof"));
    }

    #[test]
    fn a_challenge_that_is_not_in_answer_to_ours_or_asks_too_much_is_refused() {
        let password = SecretString::from("pencil".to_owned());
        for challenge in ["r=other,s=W22Z,i=4096", "r=nonceX,s=!!,i=4096", "r=nonceX,s=W22Z", "r=nonceX,s=W22Z,i=0", "r=nonceX,s=W22Z,i=2000000", ""] {
            let mut scram = Scram::with_nonce(Hash::Sha512, "a=b,c", "nonce".to_owned());
            assert_eq!(scram.first(), b"n,,n=a=3Db=2Cc,r=nonce");
            assert!(scram.second(challenge.as_bytes(), &password).is_err(), "{challenge}");
            assert!(!scram.is_proven(b"v="), "nothing is proven before an exchange");
        }
    }
}

//! Removes private passages and secrets before text is stored or sent.

#[cfg(feature = "service")]
pub mod redact;
#[cfg(feature = "service")]
pub mod settings;
pub mod tags;

/// Text without secrets. Only this module makes it, and prompts accept nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted(String);

impl Redacted {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Unwraps the text.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Wraps compiled-in text, which holds no secrets.
    pub fn of_program(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Wraps harmless text of a test.
    #[cfg(test)]
    pub fn harmless(text: &str) -> Self {
        Self(text.to_owned())
    }
}

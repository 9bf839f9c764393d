//! What must not be kept, and what must not leave: private tags, and secrets.

#[cfg(feature = "service")]
pub mod redact;
pub mod tags;

/// Text from which secrets were removed. Only this module makes it, and a prompt accepts nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted(String);

impl Redacted {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, for good.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Text of the program's own: what is compiled in holds nobody's secrets.
    pub fn of_program(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Text that a test knows to be harmless.
    #[cfg(test)]
    pub fn harmless(text: &str) -> Self {
        Self(text.to_owned())
    }
}

//! What is wrong with an input: the path of a field, and what was expected there.

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// The field's path, for example `policy.scaleDown.maxFactor`.
    pub path: String,
    /// What is wrong: the value, and what was expected.
    pub message: String,
}

impl Problem {
    /// A problem at a path.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// The same, one level further out.
    #[must_use]
    pub fn under(self, parent: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') || parent.is_empty() { "" } else { "." };
        Self { path: format!("{parent}{dot}{}", self.path), message: self.message }
    }
}

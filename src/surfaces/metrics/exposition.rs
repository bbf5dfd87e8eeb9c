//! A writer of the Prometheus text format, version 0.0.4: finite values only.

use std::fmt::Write;

/// Text that grows family by family.
pub struct Exposition {
    text: String,
}

/// A family that is being written. Its head appears with its first sample, so an empty family leaves no trace.
pub struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
    help: &'a str,
    kind: &'static str,
    begun: bool,
}

impl Exposition {
    /// No text yet.
    pub const fn new() -> Self {
        Self { text: String::new() }
    }

    /// Begins a gauge family; `name` comes without the prefix.
    pub fn family<'a>(&'a mut self, name: &'a str, help: &'a str) -> Family<'a> {
        Family { text: &mut self.text, name, help, kind: "gauge", begun: false }
    }

    /// Begins a counter family.
    pub fn counter_family<'a>(&'a mut self, name: &'a str, help: &'a str) -> Family<'a> {
        Family { text: &mut self.text, name, help, kind: "counter", begun: false }
    }

    /// The text so far.
    pub fn finish(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Writes a sample. What is unknown or not finite is left out.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: Option<f64>) {
        let mut written = String::new();
        for (name, value) in labels {
            if !written.is_empty() {
                written.push(',');
            }
            label(&mut written, name, value);
        }
        self.labelled(&written, value);
    }

    /// The same with labels that were written by [`label`].
    pub fn labelled(&mut self, labels: &str, value: Option<f64>) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        if !self.begun {
            self.begun = true;
            let Self { name, help, kind, .. } = *self;
            // writing to a string cannot fail
            let _ = write!(self.text, "# HELP loadline_{name} {help}\n# TYPE loadline_{name} {kind}\n");
        }
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        let _ = writeln!(self.text, "loadline_{}{open}{labels}{close} {value}", self.name);
    }
}

/// Writes `name="value"`, with backslash, quote and line feed escaped.
pub fn label(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push_str("=\"");
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(letter),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_appears_with_its_first_finite_sample() {
        let mut text = Exposition::new();
        let mut family = text.family("depth", "How deep.");
        family.sample(&[], None);
        family.sample(&[], Some(f64::NAN));
        family.sample(&[("at", "a\\b\"c\nd")], Some(2.5));
        assert_eq!(text.finish(), "# HELP loadline_depth How deep.\n# TYPE loadline_depth gauge\nloadline_depth{at=\"a\\\\b\\\"c\\nd\"} 2.5\n");
    }
}

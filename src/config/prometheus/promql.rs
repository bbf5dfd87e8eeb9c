//! What a PromQL expression reads from: its selectors, found without understanding the rest of it.
//!
//! They are needed because an answer of Prometheus carries the time of the question and not that of the samples: up to
//! five minutes after a target has gone silent it is answered with what was last seen. `timestamp(selector)` tells when
//! that was, and it tells it of a plain selector alone, not of a sum over it. So each selector of each query is asked for
//! its age beside the query itself ([`age`]).
//!
//! ```text
//! sum(rate(orders_total{job="a"}[5m] offset 1w))   reads from   orders_total{job="a"}
//! ```
//! Ranges, `offset` and `@` are left out: they say what a number is about, and the question here is whether samples still
//! come. Why not a whole parser: it refuses what the server it was not written for understands, and brings a grammar
//! generator along. An expression is only cut into words here; whether it means anything is the server's to say.
//!
//! Source: Prometheus' documentation of its query language (literals, selectors, operators, functions, `timestamp`).

/// Words that stand where a metric could and are none.
const KEYWORDS: [&str; 9] = ["and", "or", "unless", "bool", "offset", "atan2", "start", "end", "default"];
/// Words before a list of labels.
const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// The selectors of an expression, each once, in the order in which they stand there.
///
/// # Errors
///
/// What cannot be an expression at all: an open bracket or text, in words.
pub fn selectors(expression: &str) -> Result<Vec<String>, String> {
    let mut words = Words { rest: expression };
    let mut open: Vec<char> = Vec::new();
    let mut found: Vec<String> = Vec::new();
    let mut labels = false;
    while let Some(word) = words.next()? {
        match word {
            Word::Name(name) => {
                let called = words.peek() == Some('(');
                let lower = name.to_ascii_lowercase();
                if BEFORE_LABELS.contains(&lower.as_str()) {
                    labels = called;
                    continue;
                }
                // `sum by (a) (b)`: an operator over a vector that is not a call yet
                let grouped = words.word().is_some_and(|next| matches!(next.to_ascii_lowercase().as_str(), "by" | "without"));
                if called || grouped || KEYWORDS.contains(&lower.as_str()) || matches!(lower.as_str(), "inf" | "nan") {
                    continue;
                }
                let matchers = if words.peek() == Some('{') { words.braces()? } else { String::new() };
                push(&mut found, format!("{name}{matchers}"));
            }
            Word::Braces => {
                let matchers = words.braces()?;
                push(&mut found, matchers);
            }
            Word::Open('(') if labels => {
                labels = false;
                words.skip_to(')')?;
            }
            Word::Open('[') => words.skip_to(']')?,
            Word::Open(bracket) => open.push(bracket),
            Word::Close => {
                if open.pop().is_none() {
                    return Err("a ) is there without its (".to_owned());
                }
            }
            Word::Other => {}
        }
    }
    if open.is_empty() { Ok(found) } else { Err("a ( is never closed".to_owned()) }
}

fn push(found: &mut Vec<String>, selector: String) {
    if !found.contains(&selector) {
        found.push(selector);
    }
}

/// An expression for the time of the oldest sample that any of the selectors finds; none where nothing is read from.
#[must_use]
pub fn age<'a>(selectors: impl Iterator<Item = &'a String>) -> Option<String> {
    let mut all: Vec<&str> = Vec::new();
    for selector in selectors {
        if !all.contains(&selector.as_str()) {
            all.push(selector);
        }
    }
    match all.as_slice() {
        [] => None,
        [one] => Some(format!("min(timestamp({one}))")),
        // `or` keeps one of two series with the same labels: a label of its own keeps each of these
        many => {
            let each = many.iter().enumerate().map(|(index, one)| format!("label_replace(min(timestamp({one})),\"of\",\"{index}\",\"\",\"\")"));
            Some(format!("min({})", each.collect::<Vec<_>>().join(" or ")))
        }
    }
}

enum Word<'a> {
    /// A metric, a function, an operator.
    Name(&'a str),
    /// `{`, without a name before it.
    Braces,
    Open(char),
    Close,
    /// Numbers, durations, operators.
    Other,
}

/// The words of an expression.
struct Words<'a> {
    rest: &'a str,
}

fn begins_name(letter: char) -> bool {
    letter.is_ascii_alphabetic() || matches!(letter, '_' | ':')
}

fn in_name(letter: char) -> bool {
    begins_name(letter) || letter.is_ascii_digit()
}

impl<'a> Words<'a> {
    fn blank(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            self.rest = comment.split_once('\n').map_or("", |(_, after)| after);
        }
    }

    /// The next letter that is no blank.
    fn peek(&mut self) -> Option<char> {
        self.blank();
        self.rest.chars().next()
    }

    /// The next word, where it is a name; it is not taken.
    fn word(&mut self) -> Option<&'a str> {
        self.peek().filter(|letter| begins_name(*letter))?;
        let end = self.rest.find(|letter| !in_name(letter)).unwrap_or(self.rest.len());
        self.rest.get(..end)
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn next(&mut self) -> Result<Option<Word<'a>>, String> {
        let Some(letter) = self.peek() else { return Ok(None) };
        if let Some(name) = self.word() {
            self.take(name.len());
            return Ok(Some(Word::Name(name)));
        }
        Ok(Some(match letter {
            '"' | '\'' | '`' => {
                self.text()?;
                Word::Other
            }
            '0'..='9' => {
                // 5m, 0x1f, 1e9: not a name that follows a number
                let end = self.rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_'))).unwrap_or(self.rest.len());
                self.take(end);
                Word::Other
            }
            '{' => Word::Braces,
            '(' | '[' => {
                self.take(1);
                Word::Open(letter)
            }
            ')' => {
                self.take(1);
                Word::Close
            }
            ']' | '}' => return Err(format!("a {letter} is there without its begin")),
            _ => {
                self.take(letter.len_utf8());
                Word::Other
            }
        }))
    }

    /// Takes a text with its quotes.
    fn text(&mut self) -> Result<&'a str, String> {
        let begin = self.rest;
        let quote = begin.chars().next().unwrap_or('"');
        let mut escaped = false;
        for (at, letter) in begin.char_indices().skip(1) {
            if escaped {
                escaped = false;
            } else if letter == '\\' && quote != '`' {
                escaped = true;
            } else if letter == quote {
                return Ok(self.take(at + letter.len_utf8()));
            }
        }
        Err(format!("a text in {quote} is never closed"))
    }

    /// Takes matchers with their braces.
    fn braces(&mut self) -> Result<String, String> {
        self.blank();
        let mut taken = String::new();
        while let Some(letter) = self.rest.chars().next() {
            match letter {
                '"' | '\'' | '`' => taken.push_str(self.text()?),
                '#' => self.blank(),
                _ => taken.push_str(self.take(letter.len_utf8())),
            }
            if letter == '}' {
                return Ok(taken);
            }
        }
        Err("a { is never closed".to_owned())
    }

    fn skip_to(&mut self, end: char) -> Result<(), String> {
        while let Some(letter) = self.peek() {
            match letter {
                '"' | '\'' | '`' => drop(self.text()?),
                _ => drop(self.take(letter.len_utf8())),
            }
            if letter == end {
                return Ok(());
            }
        }
        Err(format!("{end} is missing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(expression: &str) -> Vec<String> {
        selectors(expression).unwrap_or_else(|error| vec![format!("error: {error}")])
    }

    #[test]
    fn what_an_expression_reads_from_is_found_in_every_form_of_it() {
        for (expression, expected) in [
            ("up", vec!["up"]),
            ("sum(up)", vec!["up"]),
            ("sum by (job, instance) (rate(http_requests_total{job=\"a\"}[5m] offset 1w))", vec!["http_requests_total{job=\"a\"}"]),
            ("sum(rate(x[5m])) by (job) / on (job) group_left (team) max without (pod) (y)", vec!["x", "y"]),
            ("a and on (topic, partition) b{consumergroup=\"orders\"}", vec!["a", "b{consumergroup=\"orders\"}"]),
            ("topk(3, a) > bool 5 or vector(0)", vec!["a"]),
            ("{__name__=~\"kafka_.*\", job='k'}", vec!["{__name__=~\"kafka_.*\", job='k'}"]),
            ("a{text=\"a } and ( \\\" b\"} unless c", vec!["a{text=\"a } and ( \\\" b\"}", "c"]),
            ("time() - a / 1000 # a comment with b (\n + 1e9 + 0x1f + Inf + NaN", vec!["a"]),
            ("max_over_time(deriv(rate(distance[5s])[30s:5s])[10m:])", vec!["distance"]),
            ("a @ 1609746000 + b @ start() + c offset -5m", vec!["a", "b", "c"]),
            ("histogram_quantile(0.9, sum by (le) (rate(job:latency_bucket[5m])))", vec!["job:latency_bucket"]),
            ("label_replace(a, \"x\", \"$1\", \"y\", \"(.*)\") + a", vec!["a"]),
            ("count(a) == 3", vec!["a"]),
            ("sum by () (a)", vec!["a"]),
            ("vector(1)", vec![]),
            ("{\"http.requests\", job=\"a\"}", vec!["{\"http.requests\", job=\"a\"}"]),
            ("-a ^ b % c", vec!["a", "b", "c"]),
        ] {
            assert_eq!(found(expression), expected, "{expression}");
        }
    }

    #[test]
    fn what_is_never_closed_is_no_expression() {
        for (expression, words) in [
            ("sum(up", "( is never closed"),
            ("up)", "without its ("),
            ("up{job=\"a\"", "{ is never closed"),
            ("up{job=\"a}", "text in \" is never closed"),
            ("rate(up[5m)", "] is missing"),
            ("sum by (job", ") is missing"),
            ("up}", "without its begin"),
        ] {
            let error = selectors(expression).expect_err(expression);
            assert!(error.contains(words), "{expression}: {error}");
        }
    }

    #[test]
    fn the_age_is_that_of_the_oldest_sample_of_all_selectors() {
        let of = |list: &[&str]| age(list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>().iter());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["a{x=\"1\"}", "a{x=\"1\"}"]).as_deref(), Some("min(timestamp(a{x=\"1\"}))"));
        assert_eq!(
            of(&["a", "b"]).as_deref(),
            Some("min(label_replace(min(timestamp(a)),\"of\",\"0\",\"\",\"\") or label_replace(min(timestamp(b)),\"of\",\"1\",\"\",\"\"))")
        );
    }
}

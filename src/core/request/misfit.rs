//! What does not fit: every misfit of an input with its path, its value and what was expected there.
//!
//! A deserializer stops at the first misfit. So each is noted and taken out, or replaced by something that fits where it
//! must be there, until the rest fits: a caller sees all problems at once and not one after the other. Paths keep
//! the positions of the input although elements have been taken out, and nothing is said of what was put in.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::core::problem::Problem;

/// The most problems that are listed.
pub const MOST_PROBLEMS: usize = 100;

/// What is left of an input, and what is wrong with it.
pub struct Sifted<T> {
    /// What fits; `None` when nothing does, or when positions in it are no longer those of the input.
    pub rest: Option<T>,
    /// What does not.
    pub problems: Vec<Problem>,
}

/// Sifts a tree.
pub fn sift<T: DeserializeOwned>(mut tree: Value) -> Sifted<T> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut taken = Taken::default();
    while problems.len() < MOST_PROBLEMS {
        let error = match serde_path_to_error::deserialize::<_, T>(&tree) {
            Ok(rest) => return Sifted { rest: taken.0.is_empty().then_some(rest), problems },
            Err(error) => error,
        };
        let mut path: Vec<Segment> = error.path().iter().filter_map(Segment::from).collect();
        let text = error.inner().to_string();
        let field = missing_field(&text).map(str::to_owned);
        if let Some(field) = &field {
            path.push(Segment::Key(field.clone()));
        }
        let at = join(&taken.original(&path));
        // what was taken out here is missing by our own doing
        if !problems.iter().any(|problem| problem.path == at) {
            let value = find(&mut tree, &path);
            let message = if field.is_some() { "is missing".to_owned() } else { words_for(&text, value.as_deref()) };
            problems.push(Problem::new(at, message));
        }
        let is_mended = match field {
            Some(field) => stand_in::<T>(&mut tree, &path, &field) || path.split_last().is_some_and(|(_, parents)| taken.remove(&mut tree, parents)),
            None => taken.remove(&mut tree, &path),
        };
        if !is_mended {
            break;
        }
    }
    Sifted { rest: None, problems }
}

/// The tree of a text that is JSON, with numbers that a double cannot hold noted and replaced.
pub fn tree(text: &str, problems: &mut Vec<Problem>) -> Option<Value> {
    let mut text = text.to_owned();
    for _ in 0..MOST_PROBLEMS {
        let mut reader = serde_json::Deserializer::from_str(&text);
        let error = match serde_path_to_error::deserialize::<_, Value>(&mut reader) {
            Ok(tree) => return Some(tree),
            Err(error) => error,
        };
        let path = join(&error.path().iter().filter_map(Segment::from).collect::<Vec<_>>());
        let inner = error.into_inner();
        let Some(number) = number_at(&text, inner.line(), inner.column()) else {
            problems.push(Problem::new(path, in_words(&inner.to_string())));
            return None;
        };
        let value: String = text.get(number.clone()).unwrap_or_default().chars().take(40).collect();
        problems.push(Problem::new(path, format!("{value} is out of range: expected a number that a double can hold")));
        text.replace_range(number, "0");
    }
    None
}

/// What is wrong with a text whose tree is fine: a key that stands twice.
pub fn text_problem<T: DeserializeOwned>(text: &str) -> String {
    let mut reader = serde_json::Deserializer::from_str(text);
    let Err(error) = serde_path_to_error::deserialize::<_, Option<T>>(&mut reader) else { return "does not fit: expected another form".to_owned() };
    let inside = error.path().to_string();
    let message = in_words(&error.inner().to_string());
    if inside == "." { message } else { format!("{message}, in {inside}") }
}

/// The bytes of the number around a position.
fn number_at(text: &str, line: usize, column: usize) -> Option<std::ops::Range<usize>> {
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let bytes = text.as_bytes();
    let is_part = |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E'));
    let inside = (start + column).saturating_sub(2);
    let at = (inside..inside + 3).find(|at| is_part(*at))?;
    let first = (0..=at).rev().take_while(|at| is_part(*at)).last()?;
    let last = (at..bytes.len()).take_while(|at| is_part(*at)).last()?;
    Some(first..last + 1)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
}

impl Segment {
    fn from(segment: &serde_path_to_error::Segment) -> Option<Self> {
        match segment {
            serde_path_to_error::Segment::Seq { index } => Some(Self::Index(*index)),
            serde_path_to_error::Segment::Map { key } | serde_path_to_error::Segment::Enum { variant: key } => Some(Self::Key(key.clone())),
            serde_path_to_error::Segment::Unknown => None,
        }
    }
}

fn join(path: &[Segment]) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            // writing to a String cannot fail
            Segment::Index(index) => _ = write!(text, "[{index}]"),
            Segment::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
        }
    }
    text
}

/// Positions of elements that were taken out, by the path of their array in the input, in order.
#[derive(Default)]
struct Taken(BTreeMap<String, Vec<usize>>);

impl Taken {
    /// A path of the tree as it is now, in positions of the input.
    fn original(&self, path: &[Segment]) -> Vec<Segment> {
        let mut original: Vec<Segment> = Vec::with_capacity(path.len());
        for segment in path {
            let segment = match segment {
                Segment::Key(key) => Segment::Key(key.clone()),
                Segment::Index(index) => {
                    let taken = self.0.get(&join(&original));
                    Segment::Index(taken.into_iter().flatten().fold(*index, |index, gone| if *gone <= index { index + 1 } else { index }))
                }
            };
            original.push(segment);
        }
        original
    }

    /// Takes the value at `path` out of the tree.
    fn remove(&mut self, tree: &mut Value, path: &[Segment]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        match (find(tree, parents), last) {
            (Some(Value::Object(object)), Segment::Key(key)) => object.remove(key).is_some(),
            (Some(Value::Array(items)), Segment::Index(index)) if *index < items.len() => {
                items.remove(*index);
                let original = self.original(path);
                if let Some((Segment::Index(gone), array)) = original.split_last() {
                    let places = self.0.entry(join(array)).or_default();
                    places.push(*gone);
                    places.sort_unstable();
                }
                true
            }
            _ => false,
        }
    }
}

fn find<'a>(tree: &'a mut Value, path: &[Segment]) -> Option<&'a mut Value> {
    path.iter().try_fold(tree, |node, segment| match segment {
        Segment::Key(key) => node.get_mut(key.as_str()),
        Segment::Index(index) => node.get_mut(*index),
    })
}

/// Puts something that fits in the place of a field that must be there, so that what stands beside it can be judged.
fn stand_in<T: DeserializeOwned>(tree: &mut Value, path: &[Segment], field: &str) -> bool {
    let Some((_, parents)) = path.split_last() else { return false };
    for candidate in [json!(0), json!("-"), json!([]), json!({}), json!(false)] {
        let Some(Value::Object(object)) = find(tree, parents) else { return false };
        object.insert(field.to_owned(), candidate);
        let Err(error) = serde_path_to_error::deserialize::<_, T>(&*tree) else { return true };
        let mut at: Vec<Segment> = error.path().iter().filter_map(Segment::from).collect();
        if let Some(missing) = missing_field(&error.inner().to_string()) {
            at.push(Segment::Key(missing.to_owned()));
        }
        if !at.starts_with(path) {
            return true;
        }
    }
    if let Some(Value::Object(object)) = find(tree, parents) {
        object.remove(field);
    }
    false
}

fn missing_field(text: &str) -> Option<&str> {
    text.strip_prefix("missing field `")?.split('`').next()
}

/// What is wrong with a value. An error of a library that does not name a text is one about a time, unless it is the key
/// that is wrong.
fn words_for(text: &str, value: Option<&Value>) -> String {
    if let Some(Value::String(given)) = value
        && !text.starts_with("unknown field")
        && !text.contains(&format!("\"{given}\""))
        && !text.contains(&format!("`{given}`"))
    {
        let given: String = given.chars().take(80).collect();
        return format!("\"{given}\" is not a time: expected RFC 3339 such as \"2026-11-30T10:00:00Z\"");
    }
    in_words(text)
}

/// The deserializer's words for types, said for people.
pub fn in_words(text: &str) -> String {
    let text = match text.find("expected struct ") {
        Some(at) => format!("{}expected an object", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    };
    text.replace("expected u64", "expected a whole number of at least 0")
        .replace("expected u32", "expected a whole number of at least 0")
        .replace("expected i64", "expected a whole number")
        .replace("expected f64", "expected a number")
        .replace("expected a borrowed string", "expected text")
        .replace("expected a string", "expected text")
        .replace("expected a sequence", "expected a list")
        .replace("invalid type: ", "")
        .replace("invalid value: ", "")
        .replace("floating point `", "number `")
}
